package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/discovery"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
	"github.com/rpcgate/rpcgate/integration/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a shop; stop ends it as SIGTERM does, and returns what run returned.
func start(t *testing.T, o options) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- run(ctx, o, slog.New(slog.DiscardHandler)) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ran })
	t.Cleanup(func() { _ = stop() })
	return stop
}

// An etcd that dies and comes back empty, and a shop that leaves, lose no call.
func TestCallsThroughEtcd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	etcd := etcdtest.Start(t)
	cli, err := discovery.Dial(config.Etcd{Endpoints: []string{etcd.Endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	resolver := discovery.NewEtcd(cli, slog.New(slog.DiscardHandler))
	t.Cleanup(resolver.Close)

	o := options{listen: "127.0.0.1:0", etcd: etcd.Endpoint, etcdKey: "shop.rpc", drain: 10 * time.Second}
	stopFirst := start(t, o)
	start(t, o)

	conn, err := grpc.NewClient(discovery.EtcdTarget(config.BackendEtcd{Key: "shop.rpc"}),
		grpc.WithResolvers(resolver.Builder()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	users := shoppb.NewUserServiceClient(conn)
	create := func(opts ...grpc.CallOption) error {
		_, err := users.CreateUser(ctx, &shoppb.CreateUserRequest{Name: "ada"}, opts...)
		return err
	}
	for limit := time.Now().Add(30 * time.Second); create() != nil; {
		if time.Now().After(limit) {
			t.Fatal("the shops were not found")
		}
	}

	var calls atomic.Int64
	calling, stopCalling := context.WithCancel(ctx)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for calling.Err() == nil {
				calls.Add(1)
				if err := create(); err != nil {
					t.Errorf("a call failed: %v", err)
					return
				}
			}
		})
	}
	etcd.Kill()
	etcd.RestartEmpty()
	if err := stopFirst(); err != nil {
		t.Errorf("the first shop: %v", err)
	}
	stopCalling()
	callers.Wait()
	if calls.Load() < 100 {
		t.Errorf("only %d calls were made", calls.Load())
	}
}

func TestFaultyOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		o     options
		fault string
	}{
		{"app without token", options{listen: "127.0.0.1:0", app: "acme"}, "-app needs -token"},
		{"listen", options{listen: "127.0.0.1"}, "missing port"},
		{"advertise", options{listen: "127.0.0.1:0", etcd: "127.0.0.1:1", etcdKey: "shop.rpc", advertise: "shop"}, "advertised address"},
		{"etcd key", options{listen: "127.0.0.1:0", etcd: "127.0.0.1:1"}, "no key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			err := run(t.Context(), tc.o, slog.New(slog.NewTextHandler(&log, nil)))
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("run: %v, want %q", err, tc.fault)
			}
		})
	}
}
