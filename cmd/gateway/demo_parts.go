package main

import (
	"context"
	"fmt"
	"net"

	"github.com/alicebob/miniredis/v2"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/examples/shop/shopserver"
)

// demoApp is the app that the demo issues its token for.
const demoApp = "demo"

// demoStore is a token store in memory, with one token.
type demoStore struct {
	server              *miniredis.Miniredis
	address, app, token string
}

// startDemoStore serves the Redis protocol on a loopback port.
func startDemoStore(ctx context.Context) (*demoStore, error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("token store: %w", err)
	}
	s := &demoStore{server: server, address: server.Addr(), app: demoApp}
	if err := s.issue(ctx); err != nil {
		s.close()
		return nil, fmt.Errorf("token store: %w", err)
	}
	return s, nil
}

func (s *demoStore) issue(ctx context.Context) error {
	cfg := config.Defaults()
	cfg.Redis.Addresses = []string{s.address}
	rdb, err := auth.Open(cfg.Redis)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	issued, err := tenant.NewStore(rdb, cfg.Auth).Issue(ctx, tenant.IssueOptions{App: s.app, Note: "gateway demo"})
	if err != nil {
		return err
	}
	s.token = issued.Secret
	return nil
}

func (s *demoStore) close() { s.server.Close() }

// demoShop is the demo backend, a gRPC server on a loopback port.
type demoShop struct {
	address string
	stop    context.CancelFunc
	done    <-chan struct{}
}

// startDemoShop serves a shop until close: not until ctx ends, for the gateway
// drains first.
func startDemoShop(ctx context.Context) (*demoShop, error) {
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo backend: %w", err)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A shop that stops serving shows as calls that find no backend.
		_ = shopserver.Serve(serving, lis, shopserver.Options{DrainTimeout: demoDrainTimeout})
	}()
	return &demoShop{address: lis.Addr().String(), stop: stop, done: done}, nil
}

func (s *demoShop) close() {
	s.stop()
	<-s.done
}
