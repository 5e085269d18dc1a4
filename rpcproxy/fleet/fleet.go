// Package fleet owns what a gateway knows of one backend's endpoints, over all
// of its connections, and the choice of one for each attempt: load, latency,
// weights, zones, ejections, health, subsets.
//
// It is pure decisions: no gRPC, no goroutine, no I/O, and a clock that is
// given to it, so that a simulation runs the very code that serves calls.
//
// One [Fleet] stands for a backend. Discovery's list goes in by [Fleet.Update].
// Each connection makes a [Set] of the endpoints that it has ready, whose Pick
// makes one [Choice] at a time; [Fleet.Done] takes in how the attempt ended.
package fleet

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// Outcome is what an attempt says about its endpoint.
type Outcome uint8

// The outcomes.
const (
	// Ignored says nothing about the endpoint: its caller went away, or asked for
	// the impossible.
	Ignored Outcome = iota
	// Success is an answer, whatever its content.
	Success
	// Failure is one that the endpoint, or the way to it, is to blame for.
	Failure
)

// Clock gives the time since a fixed point, never going back.
type Clock func() time.Duration

// Info is an endpoint as discovery tells of it.
type Info struct {
	// host:port.
	Address string
	// What it registered with, flat: zone, weight, version and whatever else.
	// Not changed after Update.
	Metadata map[string]string

	weight float64 // of Metadata
}

// Fleet is what is known of a backend's endpoints. It is safe for use by many
// goroutines.
type Fleet struct {
	cfg    config.Backend
	now    Clock
	rand   func() uint64
	policy policy
	part   subsetter

	availability
	opening opening
	dials   *Dials
	used    atomic.Pointer[[]*Endpoint]

	mu       sync.Mutex
	all      map[string]*Endpoint // by address
	list     []Info               // as of the last Update
	expected []expectation
}

// Options is what a [Fleet] needs besides its configuration. The zero value
// works.
type Options struct {
	// nil: the time since New.
	Now Clock
	// Random bits, for use by many goroutines; nil: math/rand/v2's, which are
	// the processor's own.
	Rand func() uint64
	// Is told what happens to endpoints; nil: nobody is. It must not call the
	// fleet.
	Observe func(Event)
}

// New makes a fleet without endpoints.
func New(cfg config.Backend, o Options) (*Fleet, error) {
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Duration { return time.Since(start) }
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
	p, err := policyOf(cfg.Balancer.Policy, o.Rand)
	if err != nil {
		return nil, err
	}
	f := &Fleet{cfg: cfg, now: o.Now, rand: o.Rand, policy: p, all: map[string]*Endpoint{}, dials: newDials(cfg.Pool.MaxDials)}
	f.part = newSubsetter(cfg.Balancer, o.Rand)
	f.availability.init(cfg.Ejection, o)
	f.opening.init()
	f.used.Store(&[]*Endpoint{})
	return f, nil
}

// Config is the backend's configuration.
func (f *Fleet) Config() config.Backend { return f.cfg }

// Dials says when connections to endpoints may be made.
func (f *Fleet) Dials() *Dials { return f.dials }

// Endpoints are those that this gateway connects to.
func (f *Fleet) Endpoints() []*Endpoint { return *f.used.Load() }

// Done takes in how the attempt ended that c was made for, and how long it took
// to be answered, or was waited for; 0: that says nothing, as of a stream. It
// does nothing where no endpoint was chosen, and once only.
func (f *Fleet) Done(c *Choice, o Outcome, latency time.Duration) {
	e := c.Endpoint
	if e == nil {
		return
	}
	now := f.now()
	latency = min(latency, now-c.begun) // without the wait for a connection
	if c.Stream {
		latency = 0
	}
	e.load.observe(now, o, latency)
	f.observe(c, o, latency, now)
	e.load.inflight.Add(-1)
	c.Endpoint = nil
}
