package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

const (
	// How long one round of reflection may take.
	reflectTimeout = 5 * time.Second
	// The pauses while a backend's descriptors cannot be had.
	reflectMinBackoff = 500 * time.Millisecond
	reflectMaxBackoff = 15 * time.Second
)

// descriptors keeps what is known of each backend's descriptors, and has a
// new snapshot built whenever that changes.
type descriptors struct {
	log     *slog.Logger
	changed func([]routes.Input) // builds and publishes a snapshot

	mu     sync.Mutex
	inputs []routes.Input // by backend, in the config's order
}

// known are the descriptors of each backend that has some, by name.
func (d *descriptors) known() map[string]*routes.Descriptors {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := make(map[string]*routes.Descriptors, len(d.inputs))
	for _, in := range d.inputs {
		if in.Descriptors != nil {
			known[in.Backend.Name] = in.Descriptors
		}
	}
	return known
}

// loadDescriptors reads what lies on disk. Backends that are asked by reflection stay
// without descriptors until watch has them.
func loadDescriptors(ctx context.Context, backends []config.Backend) ([]routes.Input, error) {
	inputs := make([]routes.Input, 0, len(backends))
	var faults []error
	for _, b := range backends {
		in := routes.Input{Backend: b}
		if !b.Reflection {
			d, err := routes.Load(ctx, b, nil)
			if err != nil {
				faults = append(faults, fmt.Errorf("backend %s: %w", b.Name, err))
			}
			in.Descriptors = d
		}
		inputs = append(inputs, in)
	}
	return inputs, errors.Join(faults...)
}

// askFunc asks a backend for its descriptors.
type askFunc func(context.Context) (*routes.Descriptors, error)

// watch asks one backend for its descriptors until ctx ends: with growing
// pauses while it does not answer, then every interval. firstDone is called
// once, after the first try, whatever its result.
func (d *descriptors) watch(ctx context.Context, i int, cfg config.Backend, ask askFunc, firstDone func()) {
	first := sync.OnceFunc(firstDone)
	defer first()
	backoff := reflectMinBackoff
	for {
		pause := jitter(cfg.ReflectionInterval)
		if err := d.refresh(ctx, i, ask); err != nil {
			if ctx.Err() != nil {
				return
			}
			d.log.LogAttrs(ctx, slog.LevelWarn, "cannot read a backend's descriptors by reflection; its last known routes stay",
				slog.String("backend", cfg.Name), slog.Any("error", err), slog.Duration("retry_in", backoff))
			pause = jitter(backoff)
			backoff = min(2*backoff, reflectMaxBackoff)
		} else {
			backoff = reflectMinBackoff
		}
		first()
		if !sleep(ctx, pause) {
			return
		}
	}
}

func (d *descriptors) refresh(ctx context.Context, i int, ask askFunc) error {
	ctx, cancel := context.WithTimeout(ctx, reflectTimeout)
	defer cancel()
	found, err := ask(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.inputs[i].Descriptors
	if known != nil && known.Equal(found) {
		return nil
	}
	next := append([]routes.Input(nil), d.inputs...)
	next[i].Descriptors = found
	d.changed(next)
	d.inputs = next
	for _, warning := range found.Warnings() {
		d.log.LogAttrs(ctx, slog.LevelWarn, "backend's descriptors are not all usable",
			slog.String("backend", next[i].Backend.Name), slog.String("warning", warning))
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "backend's routes loaded", slog.String("backend", next[i].Backend.Name))
	return nil
}

// jitter spreads d by a tenth either way, so that many gateways do not ask at
// the same instant.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d)) //nolint:gosec // spreading load needs no secrecy
}

// sleep waits for d and says whether ctx is still alive after it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
