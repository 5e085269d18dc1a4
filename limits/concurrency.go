package limits

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// Concurrency bounds how many calls are in flight at once: to a fixed number,
// or to one that follows how long they take. An app may have as many of them as its
// weight allows while so many are free (see [Tenant]): alone 8/9, so that others
// find room at once when it has all that it may. It is safe for use by many
// goroutines.
type Concurrency struct {
	adaptive bool
	least    float64 // for adaptive
	most     int64

	limit    atomic.Int64
	inFlight atomic.Int64
	peak     atomic.Int64   // of inFlight since the last Adjust
	own      []atomic.Int32 // of inFlight, by the tenant's cell; nil: there is no limit

	mu    sync.Mutex
	exact float64          // limit, before it was rounded; Adjust's
	kinds map[string]*Kind // what was given out
	list  []*Kind          // the same, for Adjust
}

// NewConcurrency makes a limit. An adaptive one begins at 100, or at max_calls
// where that is less, and is to be adjusted once in an [AdjustInterval].
func NewConcurrency(cfg config.Concurrency) *Concurrency {
	const first = 100
	c := &Concurrency{
		adaptive: cfg.Adaptive, most: math.MaxInt64, kinds: map[string]*Kind{},
	}
	if cfg.MaxCalls > 0 {
		c.most = int64(cfg.MaxCalls)
	}
	c.limit.Store(c.most)
	if c.adaptive || cfg.MaxCalls > 0 {
		c.own = make([]atomic.Int32, cellCount)
	}
	if c.adaptive {
		c.least = float64(min(int64(cfg.MinCalls), c.most))
		c.exact = max(c.least, float64(min(first, c.most)))
		c.limit.Store(int64(c.exact))
	}
	return c
}

// Acquire takes a slot for a tenant's call, which Release gives back. Anything but
// Admitted is a refusal: TooMany, as all are taken, or OverShare, as the tenant has
// more than its share of them.
func (c *Concurrency) Acquire(t Tenant) Verdict {
	n := c.inFlight.Add(1)
	if c.own == nil {
		return Admitted
	}
	own := int64(c.own[t.cell].Add(1))
	limit := c.limit.Load()
	free := limit - n
	if free < 0 || limit >= leastShared && own > t.mayHave(Normal, free) {
		c.Release(t)
		if free < 0 {
			return TooMany
		}
		return OverShare
	}
	// A peak that is lost between the two is missed by as much as calls differ
	// that came at the same time.
	if c.adaptive && n > c.peak.Load() {
		c.peak.Store(n)
	}
	return Admitted
}

// leastShared is the least limit of which an app leaves some to others: of fewer
// there is no ninth part.
const leastShared = 9

// Release gives a tenant's slot back.
func (c *Concurrency) Release(t Tenant) {
	c.inFlight.Add(-1)
	if c.own != nil {
		c.own[t.cell].Add(-1)
	}
}

// ConcurrencyView is a limit at one moment.
type ConcurrencyView struct {
	// Calls in flight.
	InFlight int `json:"in_flight"`
	// How many there may be now; 0: as many as come.
	Limit int `json:"limit"`
	// Whether Limit follows the latency.
	Adaptive bool `json:"adaptive"`
}

// View tells how the limit stands.
func (c *Concurrency) View() ConcurrencyView {
	v := ConcurrencyView{InFlight: int(c.inFlight.Load()), Adaptive: c.adaptive}
	if limit := c.limit.Load(); limit != math.MaxInt64 {
		v.Limit = int(limit)
	}
	return v
}

// Kind is calls that take about as long as one another, such as those of one
// method. An adaptive limit compares a call to those of its kind alone, so that
// it is not taken for overload when callers turn to slower methods.
type Kind struct {
	calls atomic.Int64
	took  atomic.Int64 // nanoseconds, of all of calls
	usual float64      // nanoseconds; Adjust's
	steps int          // how often usual was learnt; Adjust's
}

// maxKinds bounds the kinds of one limit; what comes later shares one.
const maxKinds = 4096

// Kind gives the kind of that name; nil where the limit is fixed, and latency
// says nothing to it. It is for when a method is first seen, not for each call.
func (c *Concurrency) Kind(name string) *Kind {
	if !c.adaptive {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kinds) >= maxKinds && c.kinds[name] == nil {
		name = ""
	}
	k := c.kinds[name]
	if k == nil {
		k = new(Kind)
		c.kinds[name] = k
		c.list = append(c.list, k)
	}
	return k
}

// Observe tells how long the backend took to answer a call. What was not
// answered, and streams, which last as long as their sides want, say nothing. It
// does nothing with a nil Kind.
func (k *Kind) Observe(took time.Duration) {
	if k == nil {
		return
	}
	k.calls.Add(1)
	k.took.Add(int64(took))
}
