// Package load owns the driver: callers that make one request after another,
// each waiting for its answer (a closed loop), so that every peer is asked by
// the same number of callers and decides the rate itself.
package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Caller makes requests, one at a time. A call is over when its answer was read
// and found right.
type Caller interface {
	Call(ctx context.Context) error
	Close() error
}

// Plan is one round of load: the callers run for Warmup, uncounted, and then
// for Measure.
type Plan struct {
	Warmup, Measure time.Duration
	// Mark is called at the start and at the end of Measure, while the callers run.
	Mark func() error
}

// Result is what was counted in one round.
type Result struct {
	Requests int
	Elapsed  time.Duration
	P50, P99 time.Duration
}

// Rate is requests per second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// limit is how long a round may take beyond its plan.
const limit = 30 * time.Second

// Run drives one round. The first request that fails ends it: a figure from a
// round with failures would compare different work.
func Run(ctx context.Context, callers []Caller, p Plan) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Warmup+p.Measure+limit)
	defer cancel()
	r := &round{stop: make(chan struct{})}
	samples := make([][]time.Duration, len(callers))
	var wg sync.WaitGroup
	for i, c := range callers {
		wg.Go(func() {
			var err error
			if samples[i], err = r.drive(ctx, c); err != nil {
				r.fail(err)
				cancel()
			}
		})
	}
	elapsed, err := r.measure(ctx, p)
	close(r.stop)
	wg.Wait()
	if err := errors.Join(r.err, err); err != nil {
		return Result{}, err
	}
	return summary(samples, elapsed)
}

type round struct {
	counting atomic.Bool
	stop     chan struct{}

	mu  sync.Mutex
	err error // the first failure
}

func (r *round) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// measure waits out the plan and says how long the counting lasted.
func (r *round) measure(ctx context.Context, p Plan) (time.Duration, error) {
	if err := wait(ctx, p.Warmup); err != nil {
		return 0, err
	}
	if err := p.Mark(); err != nil {
		return 0, err
	}
	start := time.Now()
	r.counting.Store(true)
	if err := wait(ctx, p.Measure); err != nil {
		return 0, err
	}
	r.counting.Store(false)
	elapsed := time.Since(start)
	return elapsed, p.Mark()
}

// drive calls until the round stops, and returns the latencies of the calls
// that ended while it was counting.
func (r *round) drive(ctx context.Context, c Caller) ([]time.Duration, error) {
	var samples []time.Duration
	for {
		select {
		case <-r.stop:
			return samples, nil
		default:
		}
		start := time.Now()
		if err := c.Call(ctx); err != nil {
			return nil, err
		}
		if r.counting.Load() {
			samples = append(samples, time.Since(start))
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func summary(samples [][]time.Duration, elapsed time.Duration) (Result, error) {
	all := slices.Concat(samples...)
	if len(all) == 0 {
		return Result{}, fmt.Errorf("no request ended within %v", elapsed)
	}
	slices.Sort(all)
	return Result{
		Requests: len(all), Elapsed: elapsed,
		P50: quantile(all, 0.50), P99: quantile(all, 0.99),
	}, nil
}

// quantile is the smallest sample that a share q of all samples does not
// exceed. The samples are sorted and not empty.
func quantile(sorted []time.Duration, q float64) time.Duration {
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
