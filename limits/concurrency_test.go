package limits

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestFixedLimit(t *testing.T) {
	t.Parallel()
	c := NewConcurrency(config.Concurrency{MaxCalls: 2})
	first, second, third := c.Acquire(Tenant{}), c.Acquire(Tenant{}), c.Acquire(Tenant{})
	if first != Admitted || second != Admitted || third != TooMany {
		t.Fatal("not two of three were let through")
	}
	if v := c.View(); v != (ConcurrencyView{InFlight: 2, Limit: 2}) {
		t.Errorf("view: %+v", v)
	}
	c.Release(Tenant{})
	if c.Acquire(Tenant{}) != Admitted {
		t.Error("what was given back is not to be had again")
	}
	if k := c.Kind("m"); k != nil {
		t.Error("a fixed limit wants latencies")
	}
	(*Kind)(nil).Observe(time.Second)
	c.Adjust()
}

func TestNoLimit(t *testing.T) {
	t.Parallel()
	c := NewConcurrency(config.Concurrency{})
	for range 20_000 {
		if c.Acquire(Tenant{}) != Admitted {
			t.Fatal("refused")
		}
	}
	if v := c.View(); v.Limit != 0 || v.InFlight != 20_000 {
		t.Errorf("view: %+v", v)
	}
}

// Under contention there are never more than the limit, and all slots come back.
func TestLimitHoldsUnderContention(t *testing.T) {
	t.Parallel()
	const limit = 4
	c := NewConcurrency(config.Concurrency{MaxCalls: limit})
	var wg sync.WaitGroup
	held := make(chan struct{}, limit)
	for range 16 {
		wg.Go(func() {
			for range 2000 {
				if c.Acquire(Tenant{}) != Admitted {
					continue
				}
				select {
				case held <- struct{}{}:
					<-held
				default:
					t.Error("more than the limit hold a slot")
				}
				c.Release(Tenant{})
			}
		})
	}
	wg.Wait()
	if v := c.View(); v.InFlight != 0 {
		t.Errorf("%d slots were not given back", v.InFlight)
	}
}

// backend is a model of one that serves workers calls at once, each in service
// time, and lets the others wait.
type backend struct {
	workers int
	service time.Duration
}

// latency is how long calls take with so many in flight.
func (b backend) latency(inFlight int) time.Duration {
	return time.Duration(float64(b.service) * max(1, float64(inFlight)/float64(b.workers)))
}

// run has offered calls in flight for some seconds, as far as the limit lets
// them.
func (b backend) run(c *Concurrency, k *Kind, offered, seconds int) {
	for range seconds {
		held := 0
		for held < offered && c.Acquire(Tenant{cell: uint16(held)}) == Admitted {
			held++
		}
		took := b.latency(held)
		for range 2 * minSamples {
			k.Observe(took)
		}
		c.Adjust()
		for i := range held {
			c.Release(Tenant{cell: uint16(i)})
		}
	}
}

// An adaptive limit grows as long as that does no harm, goes down with a backend
// that gets slow, and comes back with it.
func TestAdaptiveLimit(t *testing.T) {
	t.Parallel()
	c := NewConcurrency(config.Concurrency{MaxCalls: 5000, MinCalls: 10, Adaptive: true})
	k := c.Kind("m")
	limit := func() int { return c.View().Limit }
	if limit() != 100 {
		t.Fatalf("it begins at %d", limit())
	}
	b := backend{workers: 200, service: 10 * time.Millisecond}
	b.run(c, k, 5000, 120)
	if limit() < 200 || limit() > 500 {
		t.Errorf("a backend that can serve 200 at once gets %d", limit())
	}
	grown := limit()
	b.workers = 20
	b.run(c, k, 5000, 10)
	if limit() > grown/2 {
		t.Errorf("ten seconds after the backend can serve a tenth it gets %d, before %d", limit(), grown)
	}
	stopped := backend{workers: 1, service: 2 * time.Second}
	stopped.run(c, k, 5000, 30)
	if limit() > 20 {
		t.Errorf("a backend that answers nothing in time gets %d", limit())
	}
	b.workers = 200
	b.run(c, k, 5000, 60)
	if limit() < grown/2 {
		t.Errorf("a minute after it is well again it gets %d, before %d", limit(), grown)
	}
}

// What says nothing of the limit leaves it alone: few calls, many free slots,
// callers that turn to a slower method.
func TestAdaptiveLimitStays(t *testing.T) {
	t.Parallel()
	fresh := func() (*Concurrency, *Kind) {
		c := NewConcurrency(config.Concurrency{MaxCalls: 5000, MinCalls: 10, Adaptive: true})
		k := c.Kind("fast")
		backend{1000, time.Millisecond}.run(c, k, 5000, 20)
		return c, k
	}
	t.Run("few calls", func(t *testing.T) {
		t.Parallel()
		c, k := fresh()
		before := c.View().Limit
		for range minSamples - 1 {
			k.Observe(time.Hour)
		}
		c.Adjust()
		if got := c.View().Limit; got != before {
			t.Errorf("from %d to %d", before, got)
		}
	})
	t.Run("free slots", func(t *testing.T) {
		t.Parallel()
		c, k := fresh()
		before := c.View().Limit
		backend{1, time.Second}.run(c, k, before/3, 60)
		if got := c.View().Limit; got != before {
			t.Errorf("from %d to %d", before, got)
		}
	})
	t.Run("a slower method", func(t *testing.T) {
		t.Parallel()
		c, _ := fresh()
		before := c.View().Limit
		backend{1000, 500 * time.Millisecond}.run(c, c.Kind("slow"), 5000, 60)
		if got := c.View().Limit; got < before {
			t.Errorf("from %d to %d", before, got)
		}
	})
}

// However slow or fast, the limit keeps to its bounds.
func TestAdaptiveLimitBounds(t *testing.T) {
	t.Parallel()
	for _, cfg := range []config.Concurrency{
		{MaxCalls: 150, MinCalls: 10, Adaptive: true},
		{MaxCalls: 5, MinCalls: 10, Adaptive: true}, // the least is above the most
		{MinCalls: 1000, MaxCalls: 2000, Adaptive: true},
	} {
		c := NewConcurrency(cfg)
		k := c.Kind("m")
		backend{100_000, time.Millisecond}.run(c, k, 100_000, 200)
		if got := c.View().Limit; got > cfg.MaxCalls {
			t.Errorf("%+v: up to %d", cfg, got)
		}
		backend{1, time.Minute}.run(c, k, 100_000, 60)
		if got := c.View().Limit; got != min(cfg.MinCalls, cfg.MaxCalls) {
			t.Errorf("%+v: down to %d", cfg, got)
		}
	}
}

// Names, however many, take a bounded number of kinds.
func TestKindsAreBounded(t *testing.T) {
	t.Parallel()
	c := NewConcurrency(config.Concurrency{Adaptive: true, MinCalls: 1})
	first := c.Kind("m")
	for i := range 2 * maxKinds {
		c.Kind(fmt.Sprint(i)).Observe(time.Second)
	}
	if len(c.list) > maxKinds+1 {
		t.Errorf("%d kinds", len(c.list))
	}
	if c.Kind("m") != first || c.Kind("x") != c.Kind("y") {
		t.Error("the first kind is gone, or those beyond the bound are not one")
	}
}

func BenchmarkConcurrency(b *testing.B) {
	for name, cfg := range map[string]config.Concurrency{"fixed": {MaxCalls: 5000}, "adaptive": {MaxCalls: 5000, MinCalls: 10, Adaptive: true}} {
		b.Run(name, func(b *testing.B) {
			c := NewConcurrency(cfg)
			k := c.Kind("m")
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if c.Acquire(Tenant{}) == Admitted {
						k.Observe(time.Millisecond)
						c.Release(Tenant{})
					}
				}
			})
		})
	}
}
