package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// outbound is the way out: the backends of the configuration in force, those of
// earlier ones whose last calls go on, and what finds them.
type outbound struct {
	log *slog.Logger
	reg prometheus.Registerer // may be nil

	finders *finders

	mu      sync.Mutex
	cfg     *config.Config               // in force
	inForce map[string]*rpcproxy.Backend // by name
	coming  map[*rpcproxy.Backend]bool   // built; calls may come before it is known here that they are in force
	retired map[*rpcproxy.Backend]bool   // out of force, not closed yet
	ending  sync.WaitGroup               // the retired ones' goroutines
	closed  context.Context              //nolint:containedctx // ends the wait for the retired ones
	close   context.CancelFunc
}

// newOutbound makes the backends of cfg. Nothing is connected to yet.
func newOutbound(cfg *config.Config, log *slog.Logger, reg prometheus.Registerer) (*outbound, error) {
	o := &outbound{log: log, reg: reg, finders: &finders{log: log}, cfg: &config.Config{}, coming: map[*rpcproxy.Backend]bool{}, retired: map[*rpcproxy.Backend]bool{}}
	o.closed, o.close = context.WithCancel(context.Background())
	backends, err := o.build(cfg)
	if err != nil {
		o.end()
		return nil, err
	}
	o.replace(cfg, backends, 0, 0)
	return o, nil
}

// build gives the backends of a configuration: those in force that it has too,
// just as they are, and new ones. replace or discard must follow.
func (o *outbound) build(cfg *config.Config) (map[string]*rpcproxy.Backend, error) {
	was := make(map[string]config.Backend, len(o.cfg.Backends))
	for _, b := range o.cfg.Backends {
		was[b.Name] = b
	}
	backends := make(map[string]*rpcproxy.Backend, len(cfg.Backends))
	for _, b := range cfg.Backends {
		if before, ok := was[b.Name]; ok && before.Same(b) {
			backends[b.Name] = o.inForce[b.Name]
			continue
		}
		made, err := o.backend(cfg, b)
		if err != nil {
			o.discard(backends)
			return nil, fmt.Errorf("backend %s: %w", b.Name, err)
		}
		backends[b.Name] = made
		o.mu.Lock()
		o.coming[made] = true
		o.mu.Unlock()
	}
	return backends, nil
}

func (o *outbound) backend(cfg *config.Config, b config.Backend) (*rpcproxy.Backend, error) {
	resolvers, err := o.finders.of(cfg, b)
	if err != nil {
		return nil, err
	}
	return rpcproxy.New(b, rpcproxy.Options{
		Logger:        o.log,
		Registerer:    o.reg,
		Resolvers:     resolvers,
		CancelRevoked: cfg.Auth.RevokeInFlight == "cancel",
	})
}

// discard closes those of a map that are not in force.
func (o *outbound) discard(backends map[string]*rpcproxy.Backend) {
	for name, b := range backends {
		if o.inForce[name] != b {
			o.closeBackend(b)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.coming)
}

// replace puts other backends in force. Those that go take their last calls for
// linger, then those in flight may end within drain.
func (o *outbound) replace(cfg *config.Config, next map[string]*rpcproxy.Backend, linger, drain time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, b := range o.inForce {
		if next[name] != b {
			o.retired[b] = true
			o.ending.Go(func() { o.retire(b, linger, drain) })
		}
	}
	o.cfg, o.inForce = cfg, maps.Clone(next)
	clear(o.coming)
}

// lookInterval is how often is looked whether a retired backend has calls left.
const lookInterval = 100 * time.Millisecond

func (o *outbound) retire(b *rpcproxy.Backend, linger, drain time.Duration) {
	wait := time.NewTimer(linger)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-o.closed.Done():
	}
	ctx, cancel := context.WithTimeout(o.closed, drain)
	defer cancel()
	// A call in flight may need another connection yet, to be tried again.
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for ctx.Err() == nil && b.Concurrency().InFlight > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	if err := b.Shutdown(ctx); err != nil {
		o.log.Warn("calls of a backend that was taken out of the configuration were cut off",
			slog.String("backend", b.Name()), slog.Any("error", err))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.retired, b)
}

// revoke closes the connections of a credential that is no longer valid.
func (o *outbound) revoke(r auth.Revocation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.inForce {
		b.Revoke(r.App, r.TokenID)
	}
	for _, others := range []map[*rpcproxy.Backend]bool{o.coming, o.retired} {
		for b := range others {
			b.Revoke(r.App, r.TokenID)
		}
	}
}

func (o *outbound) closeBackend(b *rpcproxy.Backend) {
	if err := b.Close(); err != nil {
		o.log.Warn("not closed cleanly", slog.String("part", "backend "+b.Name()), slog.Any("error", err))
	}
}

// end closes everything.
func (o *outbound) end() {
	o.close()
	o.ending.Wait()
	for _, b := range o.inForce {
		o.closeBackend(b)
	}
	o.finders.close()
}
