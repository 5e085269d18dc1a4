package fleet

import (
	"sync/atomic"
	"time"
)

// reach is whether there are connections to an endpoint at all. The balancers
// give calls to those that they are connected to, so this changes nothing for
// calls: it is for operators, who would take an endpoint that is down for one
// that is well, since no call goes there to fail.
type reach struct {
	failing atomic.Int64 // connections that could not be made, last
	known   atomic.Bool  // one was made, or could not be, ever
	// Under the fleet's availability.mu: that it was told, since when, and why.
	lost      bool
	lostSince time.Duration
	lostWhy   string
}

// maxReason is how much of a connection's error is kept, in bytes.
const maxReason = 256

// Unreachable notes that a connection to the endpoint cannot be made, and why.
func (e *Endpoint) Unreachable(err error) {
	now := e.fleet.now()
	why := err.Error()
	e.reach.known.Store(true)
	e.fleet.change(func() {
		e.reach.failing.Add(1)
		e.reach.lostWhy = why[:min(len(why), maxReason)]
		if e.reach.lost || !e.unreachable() {
			return
		}
		e.reach.lost, e.reach.lostSince = true, now
		e.fleet.events = append(e.fleet.events, Event{Kind: Lost, Address: e.address, Detail: e.reach.lostWhy})
	})
}

// Reachable takes back one Unreachable: the connection is made, or given up.
func (e *Endpoint) Reachable() { e.reach.failing.Add(-1) }

// Connected notes that one more connection has the endpoint ready.
func (e *Endpoint) Connected() {
	now := e.fleet.now()
	e.reach.known.Store(true)
	e.fleet.opening.begin(now)
	e.fleet.change(func() {
		e.load.conns.Add(1)
		if e.reach.lost {
			e.reach.lost = false
			e.fleet.events = append(e.fleet.events, Event{Kind: Found, Address: e.address, For: now - e.reach.lostSince})
		}
	})
}

// Disconnected takes back one Connected.
func (e *Endpoint) Disconnected() { e.load.conns.Add(-1) }

// Lost tells whether no connection to the endpoint can be made now, for all that
// is known, and why the last one could not.
func (e *Endpoint) Lost() (why string, lost bool) {
	if !e.unreachable() {
		return "", false
	}
	e.fleet.change(func() { why = e.reach.lostWhy })
	return why, true
}

// unreachable tells whether there is no connection to it, though one is wanted.
func (e *Endpoint) unreachable() bool {
	return e.load.conns.Load() == 0 && e.reach.failing.Load() > 0
}
