package rpcproxy

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

// allowed is what a budget promises to stay within.
func allowed(cfg config.RetryBudget, calls int64, passed time.Duration) int64 {
	n := cfg.Ratio * float64(calls)
	if cfg.MinPerSecond > 0 {
		n += max(1, cfg.MinPerSecond) + cfg.MinPerSecond*passed.Seconds()
	}
	return int64(math.Floor(n + 1e-6))
}

// With every endpoint down, repeats stay within the promise exactly, whoever
// asks and however fast, and none that is due is withheld.
func TestRetryBudgetHoldsUnderConcurrency(t *testing.T) {
	for _, cfg := range []config.RetryBudget{
		{Ratio: 0.2, MinPerSecond: 3},
		{Ratio: 0, MinPerSecond: 3},
		{Ratio: 0.2, MinPerSecond: 0},
		{Ratio: 1, MinPerSecond: 0.5},
		{Ratio: 0.013, MinPerSecond: 100},
		{},
	} {
		t.Run(fmt.Sprint(cfg), func(t *testing.T) {
			const callers, each = 64, 2000
			b := newBudget(cfg)
			start := b.epoch
			var drawn atomic.Int64
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range each {
						b.call()
						for range 2 { // as many as there may be
							if b.draw() {
								drawn.Add(1)
							}
						}
					}
				})
			}
			wg.Wait()
			passed := time.Since(start)
			if got, most := drawn.Load(), allowed(cfg, callers*each, passed); got > most {
				t.Errorf("%d repeats of %d calls in %v, at most %d are allowed", got, callers*each, passed, most)
			}
			// What is forgotten within so short a time is little.
			if got, due := drawn.Load(), cfg.Ratio*callers*each; float64(got) < due*math.Exp(-passed.Seconds()/budgetWindow.Seconds())-1 {
				t.Errorf("%d repeats, though %.0f are paid for", got, due)
			}
		})
	}
}

// The same promise for the load on a backend.
func TestRetryBudgetBoundsLoad(t *testing.T) {
	var load atomic.Int64
	answer := func(any, grpc.ServerStream) error {
		load.Add(1)
		return status.Error(codes.Unavailable, "down")
	}
	s1, s2 := serve(t, answer), serve(t, answer)
	b := newBackend(t, s1.addr, func(c *config.Backend) {
		quick(c)
		c.Endpoints = []string{s1.addr, s2.addr} // both are ejected before long, which then changes nothing
	}, Options{})
	start := b.retrier.budget.epoch
	const callers, each = 16, 50
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				_ = b.Forward(testContext(t), &Request{Method: testMethod, Idempotent: true}, &exchange{requests: []string{"x"}})
			}
		})
	}
	wg.Wait()
	cfg := config.DefaultBackend("b").Retry.Budget
	most := callers*each + allowed(cfg, callers*each, time.Since(start))
	if got := load.Load(); got > most || got < callers*each {
		t.Errorf("%d calls were %d attempts, at most %d are allowed", callers*each, got, most)
	}
}

func TestBudgetOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(config.RetryBudget{Ratio: 0.2, MinPerSecond: 3})
		draw := func() (n int) {
			for b.draw() {
				n++
			}
			return n
		}
		if n := draw(); n != 3 {
			t.Errorf("%d at first, want a second's worth", n)
		}
		time.Sleep(time.Second)
		if n := draw(); n != 3 {
			t.Errorf("%d after a second", n)
		}
		time.Sleep(time.Hour)
		if n := draw(); n != 3 {
			t.Errorf("%d after an hour without calls", n)
		}
		for range 100 {
			b.call()
		}
		if n := draw(); n != 20 {
			t.Errorf("%d after 100 calls at once", n)
		}
		// 10 a second for an hour pay for 10 s × 2, whenever they are looked at.
		for range 36_000 {
			b.call()
		}
		time.Sleep(time.Hour)
		if n := draw(); n < 22 || n > 23 {
			t.Errorf("%d after an hour of calls, want 20 and 3", n)
		}
		// Refusals take nothing.
		for range 100 {
			b.draw()
		}
		time.Sleep(time.Second)
		if n := draw(); n != 3 {
			t.Errorf("%d a second after refusals", n)
		}
	})
}

func BenchmarkBudget(b *testing.B) {
	budget := newBudget(config.RetryBudget{Ratio: 0.2, MinPerSecond: 3})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			budget.call()
		}
	})
}

// The median and the 95th percentile are found, kept, and followed.
func TestQuantile(t *testing.T) {
	for _, of := range []float64{.5, .95} {
		q := quantile{of: of}
		if q.get() != 0 {
			t.Error("there is an estimate of nothing")
		}
		feed := func(unit time.Duration, n int) (above float64) {
			longer := 0
			for i := range n {
				d := time.Duration(i*7919%1000+1) * unit
				if d > q.get() {
					longer++
				}
				q.observe(d)
			}
			return float64(longer) / float64(n)
		}
		for _, unit := range []time.Duration{time.Microsecond, time.Millisecond, 10 * time.Microsecond} {
			feed(unit, 10_000)
			want := time.Duration(of * 1000 * float64(unit))
			if got := q.get(); got < want*8/10 || got > want*12/10 {
				t.Errorf("%v of 1 to 1000 × %v: %v", of, unit, got)
			}
			if above := feed(unit, 10_000); math.Abs(above-(1-of)) > 0.02 {
				t.Errorf("%v: %.3f are longer than the estimate", of, above)
			}
		}
	}
}

func TestQuantileIsSafeForAll(t *testing.T) {
	q := quantile{of: .95}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 10_000 {
				q.observe(time.Duration(i%100) * time.Millisecond)
				_ = q.get()
			}
		})
	}
	wg.Wait()
	if got := q.get(); got < 70*time.Millisecond || got > 110*time.Millisecond {
		t.Errorf("got %v", got)
	}
	q.observe(math.MaxInt64)
	q.observe(0)
	q.observe(-1)
}
