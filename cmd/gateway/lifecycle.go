package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/discovery"
	"github.com/rpcgate/rpcgate/gateway"
	"github.com/rpcgate/rpcgate/telemetry"
)

// serveConfig runs a gateway until ctx ends and everything has come to rest. A
// hangup reloads cfg from file; without one, it is left alone.
// ready is called once, when it takes calls; it may be nil.
func serveConfig(ctx context.Context, cfg *config.Config, file string, log *slog.Logger, ready func(*gateway.Gateway) error) error {
	reg := telemetry.NewRegistry(currentBuild())
	p, err := wireAll(cfg, log, reg)
	if err != nil {
		return err
	}
	defer p.close()
	deps := gateway.Deps{Backends: p.out.inForce, Logger: log, Registerer: reg, Gatherer: reg}
	p.usage.into(&deps)
	if p.verifier != nil { // a nil *Verifier would be an interface that is not nil
		deps.Verifier = p.verifier
		deps.Store = func() gateway.StoreState { return gateway.StoreState(p.verifier.Store()) }
	}
	if p.limiter != nil {
		deps.Limiter = p.limiter
	}
	if err := p.wireAdmin(&deps); err != nil {
		return err
	}
	gw, err := gateway.New(cfg, deps)
	if err != nil {
		return err
	}
	var beside *reloader
	if file != "" {
		beside = newReloader(p.out, log, file, reg)
		defer beside.stop()
	}
	return p.run(ctx, gw, beside, ready)
}

// run owns the goroutines beside the gateway. The first of them that fails stops
// the gateway. Revocations are listened to, and usage is flushed, until the last call has ended;
// registration ends with ctx, before the drain, so that no new callers come, or
// with a gateway that stopped by itself.
func (p *parts) run(ctx context.Context, gw *gateway.Gateway, reload *reloader, ready func(*gateway.Gateway) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	beside, stopBeside := context.WithCancel(context.WithoutCancel(ctx))
	var tasks sync.WaitGroup
	fail := func(err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			stop(err)
		}
	}
	tasks.Go(func() { fail(p.usage.run(beside)) })
	if p.verifier != nil {
		tasks.Go(func() { fail(p.verifier.Run(beside)) })
	}
	if p.limiter != nil {
		tasks.Go(func() { fail(p.limiter.Run(beside)) })
	}
	tasks.Go(func() {
		select {
		case <-gw.Started():
		case <-beside.Done(): // it never came up
			return
		}
		if ready != nil {
			fail(ready(gw))
		}
		if reload != nil {
			tasks.Go(func() { reload.run(ctx, gw) })
		}
		fail(p.register(ctx, gw))
	})
	err := gw.Run(ctx)
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	stop(nil)
	stopBeside()
	tasks.Wait()
	return err
}

// register puts the gateway's gRPC address into etcd until ctx ends, where the
// config asks for it.
func (p *parts) register(ctx context.Context, gw *gateway.Gateway) error {
	if p.cfg.Register == nil {
		return nil
	}
	address, err := discovery.AdvertiseAddress(gw.GRPCAddr().String(), p.cfg.Register.Advertise)
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	cli, err := p.out.finders.etcdClient(p.cfg)
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	r, err := discovery.NewRegistration(cli, discovery.RegisterOptions{
		Key: p.cfg.Register.Key, Address: address, TTL: p.cfg.Register.TTL,
	}, p.log)
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return r.Run(ctx)
}
