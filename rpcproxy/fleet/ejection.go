package fleet

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// ejection is what takes an endpoint out of use for a while, after Envoy's
// outlier detection and gRFC A50. Unlike there, an endpoint whose time is up
// does not get all of its calls at once, but one at a time until one succeeds.
//
// Calls are told apart by when they began: one that was under way when its
// endpoint was ejected or readmitted says nothing about what it is now.
type ejection struct {
	barred atomic.Uint32
	// Counted failures in a row.
	failures atomic.Int64
	// What calls did since the last sweep: successes, failures, and of the
	// successes that were timed how many, and how long in ns.
	wins, losses, timed, taken atomic.Int64

	// When it was last ejected, anew or again, or readmitted.
	changed atomic.Int64
	// From when on it may be tried out, while it is ejected.
	until atomic.Int64
	// Since when a trial call is under way; 0: none is.
	trial atomic.Int64

	// Under the fleet's availability.mu.
	member    bool // in use
	reason    Reason
	detail    string
	times     int           // how often it was ejected, less what is forgotten
	ejectedAt time.Duration // first of the times in a row
	backAt    time.Duration // when it was readmitted
	lastWins  int64         // in the interval before this one
	lastShare float64       // of successes, in the last interval that had calls
	compared  bool          // lastShare means something
}

// trialPatience is how long a trial call keeps others from being made: a stream
// may last for hours, and an endpoint that hangs may have all the time of its
// caller.
const trialPatience = 10 * time.Second

// trialScan is how often a trial that is due looks for an endpoint among those
// that a call may go to: connections and filters have them by parts.
const trialScan = 10 * time.Millisecond

// observe takes in how a call ended that c.Endpoint was chosen for. On success
// it costs an atomic addition and some loads.
func (f *Fleet) observe(c *Choice, o Outcome, latency, now time.Duration) {
	e := c.Endpoint
	if int64(now) >= f.sweepDue.Load() {
		f.sweep(now)
	}
	if c.trial {
		f.endTrial(c)
	}
	if e.barred.Load()&barEjected != 0 {
		f.observeEjected(c, o, now)
		return
	}
	if int64(c.begun) < e.changed.Load() {
		return // begun before it was last ejected or readmitted
	}
	switch o {
	case Success:
		e.wins.Add(1)
		if e.failures.Load() != 0 {
			e.failures.Store(0)
		}
		if latency > 0 && f.cfg.Ejection.LatencyFactor > 0 {
			e.timed.Add(1)
			e.taken.Add(int64(latency))
		}
	case Failure:
		e.losses.Add(1)
		n, limit := e.failures.Add(1), int64(f.cfg.Ejection.ConsecutiveFailures)
		// Where there is no room for another ejection, it is asked for again only after
		// as many failures more: with all endpoints down, each call would else take the
		// lock.
		if limit > 0 && n%limit == 0 {
			f.eject(e, now, ConsecutiveFailures, func() string { return fmt.Sprintf("%d failures in a row", n) })
		}
	}
}

// Progress takes in that the endpoint answers, though the attempt goes on: a
// stream may do so for hours, during which an endpoint that is tried out by it
// would stay ejected. How it ends is told by Done nonetheless.
func (f *Fleet) Progress(c *Choice) {
	e := c.Endpoint
	if e == nil {
		return
	}
	if e.barred.Load()&barEjected != 0 {
		f.observeEjected(c, Success, f.now())
	} else if int64(c.begun) >= e.changed.Load() && e.failures.Load() != 0 {
		e.failures.Store(0)
	}
}

// observeEjected is observe for an endpoint that is ejected. Only a call begun
// when its time was up says something: a trial, or one that went to it because
// all endpoints were used.
func (f *Fleet) observeEjected(c *Choice, o Outcome, now time.Duration) {
	e := c.Endpoint
	if o == Ignored || int64(c.begun) < e.until.Load() {
		return
	}
	f.change(func() {
		if e.barred.Load()&barEjected == 0 || int64(c.begun) < e.until.Load() || !e.member {
			return // another call has decided meanwhile
		}
		if o == Success {
			f.readmitLocked(e, now)
		} else {
			// While nobody succeeds, it is not this endpoint that is sick, and it must
			// be back soon after the others are.
			if f.othersSucceedLocked(e) {
				e.times++
			}
			f.barLocked(e, now, FailedTrial, fmt.Sprintf("ejected %d times lately", e.times))
			f.spare.Store(true)
		}
		f.settleLocked()
	})
}

// eject takes an endpoint out of use, if there is room for that.
func (f *Fleet) eject(e *Endpoint, now time.Duration, why Reason, detail func() string) {
	f.change(func() {
		if f.ejectLocked(e, now, why, detail) {
			f.settleLocked()
		}
	})
}

// ejectLocked tells whether it did.
func (f *Fleet) ejectLocked(e *Endpoint, now time.Duration, why Reason, detail func() string) bool {
	if !e.member || e.barred.Load()&barEjected != 0 || f.ejected >= f.mayEject(len(f.Endpoints())) {
		return false
	}
	// One time is forgotten for each interval that it was in use (gRFC A50).
	if e.times > 0 {
		e.times = max(0, e.times-int((now-e.backAt)/f.cfg.Ejection.Interval))
	}
	e.times++
	e.ejectedAt = now
	f.ejected++
	f.barLocked(e, now, why, detail())
	return true
}

// barLocked ejects an endpoint, or goes on doing so.
func (f *Fleet) barLocked(e *Endpoint, now time.Duration, why Reason, detail string) {
	cfg := &f.cfg.Ejection
	longest := max(cfg.BaseTime, cfg.MaxTime)
	// More would only be longer to forget.
	e.times = min(e.times, int((longest+cfg.BaseTime-1)/cfg.BaseTime))
	length := min(cfg.BaseTime*time.Duration(e.times), longest)
	e.reason, e.detail = why, detail
	e.changed.Store(int64(now))
	e.until.Store(int64(now + length))
	e.trial.Store(0)
	e.bar(barEjected, true)
	f.events = append(f.events, Event{Kind: Ejected, Address: e.address, Reason: why, Detail: detail, For: length})
}

// readmitLocked ends an ejection. The endpoint begins with nothing held against
// it, but for how often it was ejected.
func (f *Fleet) readmitLocked(e *Endpoint, now time.Duration) {
	e.backAt = now
	e.changed.Store(int64(now))
	e.failures.Store(0)
	e.forget()
	e.bar(barEjected, false)
	f.events = append(f.events, Event{Kind: Readmitted, Address: e.address, For: now - e.ejectedAt})
}

// othersSucceedLocked tells whether any other endpoint had a success lately.
func (f *Fleet) othersSucceedLocked(e *Endpoint) bool {
	return slices.ContainsFunc(f.Endpoints(), func(other *Endpoint) bool {
		return other != e && (other.wins.Load() > 0 || other.lastWins > 0)
	})
}

// tryOut makes c the trial call of one of the candidates, if one is ejected, its
// time is up, and no other call is trying it out: the index of it; else -1. A
// call that has failed elsewhere already is none to try things out with. Mostly
// it is one atomic load.
//
// After a trial that failed one call is spared the next one: where a breaker lets
// a single call through every few seconds, all of them would else be trials of
// the endpoint that is down, and nobody would notice that the others are well.
func (f *Fleet) tryOut(c *Choice, candidates []*Endpoint, now time.Duration) int {
	due := f.trialDue.Load()
	if int64(now) < due || len(c.Tried) > 0 || !f.trialDue.CompareAndSwap(due, int64(now+trialScan)) {
		return -1
	}
	if f.spare.Swap(false) {
		return -1
	}
	return slices.IndexFunc(candidates, func(e *Endpoint) bool { return e.claimTrial(c, now) })
}

// claimTrial makes c the trial call of the endpoint, if it needs one.
func (e *Endpoint) claimTrial(c *Choice, now time.Duration) bool {
	if e.barred.Load() != barEjected || int64(now) < e.until.Load() {
		return false
	}
	since := e.trial.Load()
	if since != 0 && now < time.Duration(since)+trialPatience || !e.trial.CompareAndSwap(since, int64(now)) {
		return false
	}
	c.trial = true
	return true
}

// endTrial lets another call try the endpoint out. It is called, too, for a
// choice that is made anew, its connection having turned out dead.
func (f *Fleet) endTrial(c *Choice) {
	c.trial = false
	c.Endpoint.trial.CompareAndSwap(int64(c.begun), 0)
}
