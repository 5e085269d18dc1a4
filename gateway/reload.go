package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// ErrNotServing is Reload's answer before the gateway is started, and once it
// stops.
var ErrNotServing = errors.New("the gateway is not serving")

// reloading is a reload on its way to Run, which alone replaces what is in force.
type reloading struct {
	ctx  context.Context //nolint:containedctx // Reload's, which waits for it
	next generation
	done chan error
}

// Reload puts the backends and the routes of another configuration in force,
// all of them or, with an error, none: a file that could not be started with
// changes nothing. Calls under way stay with what they began with, so that the
// backends that are no longer in use must be kept for as long as those may
// last. What else is in cfg is not looked at.
//
// Backends that are new and describe themselves by reflection are waited for,
// startWait at most.
func (g *Gateway) Reload(ctx context.Context, cfg *config.Config, backends map[string]*rpcproxy.Backend) error {
	r := reloading{ctx: ctx, next: generation{cfg: cfg, backends: backends}, done: make(chan error, 1)}
	if err := r.next.complete(); err != nil {
		return err
	}
	select {
	case <-g.started:
	default: // nobody would take it, and none may ever
		return ErrNotServing
	}
	select {
	case g.reloads <- r:
	case <-g.stopping:
		return ErrNotServing
	case <-ctx.Done():
		return ctx.Err()
	}
	// Not ctx: whoever asks must know what is in force.
	select {
	case err := <-r.done:
		return err
	case <-g.stopping:
	}
	select { // both at once: it may have been the last thing done
	case err := <-r.done:
		return err
	default:
		return ErrNotServing
	}
}

// current is the generation in force. There is one before any port is open.
func (g *Gateway) current() generation { return g.snapshot.Load().generation }

// watching is what runs beside the servers for one generation.
type watching struct {
	descriptors *descriptors
	stop        context.CancelFunc
	tasks       *sync.WaitGroup
}

// end stops it and waits until nothing of it can replace the snapshot any more.
func (w watching) end() {
	w.stop()
	w.tasks.Wait()
}

// reload replaces what is in force, and what runs beside it. With an error it
// is all as before.
func (g *Gateway) reload(background context.Context, r reloading, now watching) (watching, error) {
	inputs, err := loadDescriptors(r.ctx, r.next.cfg.Backends)
	if err != nil {
		return now, err
	}
	g.fillDescriptors(r.ctx, r.next, inputs, now.descriptors.known())
	// A refresh of the descriptors would build a snapshot of the old generation.
	now.end()
	s, err := g.build(r.next, nil, inputs)
	if err != nil {
		return g.watch(background, g.current(), now.descriptors.inputs), err
	}
	g.enforce(s)
	return g.watch(background, r.next, inputs), nil
}

// fillDescriptors gives backends that describe themselves their descriptors: those
// known of a backend that goes on, and else its first answer. What cannot be had
// now is asked for again later.
func (g *Gateway) fillDescriptors(ctx context.Context, next generation, inputs []routes.Input, known map[string]*routes.Descriptors) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	before := g.current()
	var asking sync.WaitGroup
	for i := range inputs {
		in := &inputs[i]
		name, backend := in.Backend.Name, next.backends[in.Backend.Name]
		if !in.Backend.Reflection {
			continue
		}
		if backend == before.backends[name] && known[name] != nil {
			in.Descriptors = known[name]
			continue
		}
		asking.Go(func() {
			found, err := routes.Load(ctx, in.Backend, backend.AcquireShared)
			if err != nil {
				g.log.LogAttrs(ctx, slog.LevelWarn, "cannot read a backend's descriptors by reflection yet",
					slog.String("backend", name), slog.Any("error", err))
				found = known[name]
			}
			in.Descriptors = found
		})
	}
	asking.Wait()
}

// watch starts what runs beside the servers: the refresh of each backend's
// descriptors and the health service's view of them.
func (g *Gateway) watch(background context.Context, n generation, inputs []routes.Input) watching {
	w, _ := g.watchFirst(background, n, inputs)
	return w
}

// watchFirst is watch, and tells when each backend was asked once.
func (g *Gateway) watchFirst(background context.Context, n generation, inputs []routes.Input) (watching, <-chan struct{}) {
	ctx, stop := context.WithCancel(background)
	w := watching{stop: stop, tasks: new(sync.WaitGroup)}
	w.descriptors = &descriptors{log: g.log, inputs: inputs, changed: func(next []routes.Input) {
		s, err := g.build(n, g.Routes(), next)
		if err != nil {
			g.log.Error("backends' routes do not fit together", slog.Any("error", err))
		}
		if s != nil {
			g.enforce(s)
		}
	}}
	var first sync.WaitGroup
	for i, in := range inputs {
		if !in.Backend.Reflection {
			continue
		}
		backend := n.backends[in.Backend.Name]
		first.Add(1)
		w.tasks.Go(func() {
			w.descriptors.watch(ctx, i, in.Backend, func(ctx context.Context) (*routes.Descriptors, error) {
				return routes.Load(ctx, in.Backend, backend.AcquireShared)
			}, first.Done)
		})
	}
	if g.health != nil {
		w.tasks.Go(func() { g.watchHealth(ctx) })
	}
	asked := make(chan struct{})
	w.tasks.Go(func() {
		first.Wait()
		close(asked)
	})
	return w, asked
}

// watchBackends is watch for the start. It returns once each backend was asked
// once, or startWait is over, or starting ends.
func (g *Gateway) watchBackends(background, starting context.Context, inputs []routes.Input) watching {
	w, asked := g.watchFirst(background, g.current(), inputs)
	limit := time.NewTimer(startWait)
	defer limit.Stop()
	select {
	case <-asked:
	case <-limit.C:
	case <-starting.Done():
	}
	return w
}

// untilStopped takes in reloads until ctx ends or a server fails, and returns
// what runs beside the servers then.
func (g *Gateway) untilStopped(ctx, background context.Context, w watching, failed <-chan error) (watching, error) {
	defer close(g.stopping)
	for {
		select {
		case <-ctx.Done():
			return w, nil
		case err := <-failed:
			return w, err
		case r := <-g.reloads:
			var err error
			w, err = g.reload(background, r, w)
			r.done <- err
		}
	}
}
