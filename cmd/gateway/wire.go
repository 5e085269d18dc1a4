package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits/global"
)

// parts are what a gateway is put together from. close takes them down in the
// reverse of the order that they were made in.
type parts struct {
	cfg      *config.Config // as started with
	log      *slog.Logger
	out      *outbound
	verifier *auth.Verifier  // nil without a Redis
	limiter  *global.Limiter // nil without a Redis
	usage    accounting
	closers  []func()
}

// wireAll makes the parts that cfg asks for. Nothing is connected to yet, so a
// store or a backend that is down keeps nothing from starting. Metrics go to
// reg, which may be nil.
func wireAll(cfg *config.Config, log *slog.Logger, reg prometheus.Registerer) (*parts, error) {
	p := &parts{cfg: cfg, log: log}
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
	p := &parts{cfg: cfg, log: log}
	if err := p.wireBackends(nil); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *parts) wireBackends(reg prometheus.Registerer) error {
	out, err := newOutbound(p.cfg, p.log, reg)
	if err != nil {
		return err
	}
	p.out = out
	p.closers = append(p.closers, out.end)
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
	if err := p.wireUsage(rdb, reg); err != nil {
		return err
	}
	p.verifier, err = auth.NewVerifier(rdb, p.cfg.Auth, auth.VerifierOptions{
		Logger:     p.log,
		Registerer: reg,
		OnRevoke:   p.out.revoke,
	})
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	p.limiter, err = global.New(rdb, p.cfg.Auth, p.cfg.Limits, global.Options{Logger: p.log, Registerer: reg, Gateways: p.verifier.Nodes})
	return err
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
