package fleet

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/rpcgate/rpcgate/config"
)

// What keeps calls from an endpoint, as bits of Endpoint.barred.
const (
	barEjected uint32 = 1 << iota
	barUnhealthy
)

// availability is which of a fleet's endpoints calls may go to. Reading takes no
// lock; changes, which are rare, are made one at a time.
type availability struct {
	observer func(Event)

	mu sync.Mutex // guards what follows, and what endpoints have that says so
	// How many of the endpoints in use are ejected.
	ejected int
	// What is to be told once mu is free.
	events []Event
	// What a sweep compares, kept for the next one.
	peers, qualified []peer

	// Grows with each change.
	changes atomic.Uint64
	panics  atomic.Bool
	// Before this time no trial is due.
	trialDue atomic.Int64
	// A trial failed, and no call has been spared one since.
	spare atomic.Bool
	// When endpoints are compared next.
	sweepDue atomic.Int64
}

func (a *availability) init(cfg config.Ejection, o Options) {
	a.observer = o.Observe
	a.trialDue.Store(never)
	a.sweepDue.Store(never)
	if cfg.Interval > 0 {
		a.sweepDue.Store(int64(o.Now() + cfg.Interval))
	}
}

// never is later than any time of a clock.
const never = math.MaxInt64

// usable tells whether calls may go to the endpoint. It changes only together
// with the fleet's generation.
func (e *Endpoint) usable() bool { return e.barred.Load() == 0 }

// generation grows at each change of any endpoint's usability, and of
// [Fleet.panicking].
func (f *Fleet) generation() uint64 { return f.changes.Load() }

// panicking tells whether so few endpoints are usable that calls are to go to
// all of them alike. It is always so when none is.
func (f *Fleet) panicking() bool { return f.panics.Load() }

// change makes a change of what is usable, and tells of it.
func (f *Fleet) change(do func()) {
	f.availability.mu.Lock()
	do()
	events := f.events
	f.events = nil
	f.availability.mu.Unlock()
	if f.observer == nil {
		return
	}
	for _, event := range events {
		f.observer(event)
	}
}

// settleLocked makes a change known: whoever sees the new generation sees what
// changed.
func (f *Fleet) settleLocked() {
	used := f.Endpoints()
	usable, ejected, due := 0, 0, int64(never)
	for _, e := range used {
		barred := e.barred.Load()
		if barred == 0 {
			usable++
		}
		if barred&barEjected != 0 {
			ejected++
			due = min(due, e.until.Load())
		}
	}
	f.ejected = ejected
	f.trialDue.Store(due)
	panics := len(used) > 0 && (usable == 0 || float64(usable) < f.cfg.Ejection.PanicThreshold*float64(len(used)))
	if f.panics.Swap(panics) != panics {
		kind := PanicEnded
		if panics {
			kind = PanicBegan
		}
		f.events = append(f.events, Event{Kind: kind, Usable: usable, Endpoints: len(used)})
	}
	f.changes.Add(1)
}

// replaced takes in that the endpoints in use are others now. What an endpoint
// that has left still does is of no matter.
func (f *Fleet) replaced(before []*Endpoint) {
	now := f.now()
	f.change(func() {
		for _, e := range before {
			e.member = false
		}
		used := f.Endpoints()
		ejected := 0
		for _, e := range used {
			e.member = true
			if e.barred.Load()&barEjected != 0 {
				ejected++
			}
		}
		// With fewer endpoints fewer may be ejected.
		for ; ejected > f.mayEject(len(used)); ejected-- {
			f.readmitLocked(longestEjected(used), now)
		}
		f.settleLocked()
	})
}

// mayEject is how many of n endpoints may be ejected at a time.
func (f *Fleet) mayEject(n int) int {
	share := f.cfg.Ejection.MaxShare
	if n < 2 || share <= 0 {
		return 0
	}
	const rounding = 1e-9 // 0.3 of 10 is 3
	return max(1, int(share*float64(n)+rounding))
}

func longestEjected(used []*Endpoint) *Endpoint {
	var longest *Endpoint
	for _, e := range used {
		if e.barred.Load()&barEjected != 0 && (longest == nil || e.ejectedAt < longest.ejectedAt) {
			longest = e
		}
	}
	return longest
}

// bar sets or clears a bit of Endpoint.barred. It is called under mu, but the
// other bits' readers take none.
func (e *Endpoint) bar(bit uint32, on bool) {
	if on {
		e.barred.Or(bit)
	} else {
		e.barred.And(^bit)
	}
}
