package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/discovery"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// parts are what a gateway is put together from. close takes them down in the
// reverse of the order that they were made in.
type parts struct {
	cfg      *config.Config
	log      *slog.Logger
	etcd     *clientv3.Client // nil where nothing is found or registered there
	backends map[string]*rpcproxy.Backend
	verifier *auth.Verifier // nil without a Redis
	closers  []func()
}

// wireAll makes the parts that cfg asks for. Nothing is connected to yet, so a
// store or a backend that is down keeps nothing from starting. Metrics go to
// reg, which may be nil.
func wireAll(cfg *config.Config, log *slog.Logger, reg prometheus.Registerer) (*parts, error) {
	p := &parts{cfg: cfg, log: log, backends: make(map[string]*rpcproxy.Backend, len(cfg.Backends))}
	err := p.wireBackends(reg)
	if err == nil {
		err = p.wireVerifier(reg)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// wireOut makes only the parts on the way out to the backends.
func wireOut(cfg *config.Config, log *slog.Logger) (*parts, error) {
	p := &parts{cfg: cfg, log: log, backends: make(map[string]*rpcproxy.Backend, len(cfg.Backends))}
	if err := p.wireBackends(nil); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *parts) wireBackends(reg prometheus.Registerer) error {
	resolvers := []resolver.Builder{discovery.StaticBuilder()}
	if usesEtcd(p.cfg) {
		cli, err := discovery.Dial(p.cfg.Etcd)
		if err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
		p.etcd = cli
		p.onClose("etcd client", cli.Close)
		watches := discovery.NewEtcd(cli, p.log)
		p.closers = append(p.closers, watches.Close)
		resolvers = append(resolvers, watches.Builder())
	}
	for _, cfg := range p.cfg.Backends {
		b, err := rpcproxy.New(cfg, rpcproxy.Options{
			Logger:        p.log,
			Registerer:    reg,
			Resolvers:     resolvers,
			CancelRevoked: p.cfg.Auth.RevokeInFlight == "cancel",
		})
		if err != nil {
			return fmt.Errorf("backend %s: %w", cfg.Name, err)
		}
		p.backends[cfg.Name] = b
		p.onClose("backend "+cfg.Name, b.Close)
	}
	return nil
}

func (p *parts) wireVerifier(reg prometheus.Registerer) error {
	if len(p.cfg.Redis.Addresses) == 0 {
		return nil
	}
	rdb, err := auth.Open(p.cfg.Redis)
	if err != nil {
		return err
	}
	p.onClose("redis client", rdb.Close)
	p.verifier, err = auth.NewVerifier(rdb, p.cfg.Auth, auth.VerifierOptions{
		Logger:     p.log,
		Registerer: reg,
		OnRevoke:   p.revoke,
	})
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	return nil
}

// revoke closes the connections of a credential that is no longer valid.
func (p *parts) revoke(r auth.Revocation) {
	for _, b := range p.backends {
		b.Revoke(r.App, r.TokenID)
	}
}

func (p *parts) onClose(what string, closer func() error) {
	p.closers = append(p.closers, func() {
		if err := closer(); err != nil && !errors.Is(err, context.Canceled) {
			p.log.Warn("not closed cleanly", slog.String("part", what), slog.Any("error", err))
		}
	})
}

func (p *parts) close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
	p.closers = nil
}

func usesEtcd(cfg *config.Config) bool {
	if cfg.Register != nil {
		return true
	}
	for _, b := range cfg.Backends {
		if b.Etcd != nil {
			return true
		}
	}
	return false
}
