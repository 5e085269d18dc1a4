package breaker

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// thresholdBuckets is in how many steps the window of a threshold breaker moves
// on.
const thresholdBuckets = 10

// threshold opens after a run or a share of failures, stays open for a time,
// and then lets probes through: Nygard's circuit breaker. It decides as
// sony/gobreaker does (TestThresholdAsGobreaker), without its lock and its two
// allocations per call while it is closed.
//
// The time from one change of state to the next is a period, with a window of
// its own. A call reports to the period that it was let through in; if that is
// over, its result changes nothing.
type threshold struct {
	cfg     config.ThresholdBreaker
	stripes *stripes
	note    func(Change)
	current atomic.Pointer[period] // stored under mu

	mu      sync.Mutex
	history history
}

// period is a time in one state.
type period struct {
	state  State
	began  time.Duration
	window *window

	// While closed: failures in a row, and when the last one came. Written under
	// the threshold's lock.
	run     atomic.Uint32
	lastRun time.Duration

	// While half-open, under the threshold's lock: the probes under way, in the
	// order in which they began, and how many succeeded.
	running   []*probe
	succeeded uint32
}

// probe is a call that was let through half-open.
type probe struct {
	began    time.Duration
	reported bool // its outcome was counted
}

func newThreshold(cfg config.ThresholdBreaker, s *stripes, note func(Change), now time.Duration) (*threshold, error) {
	if cfg.ConsecutiveFailures == 0 && cfg.FailureRatio == 0 {
		return nil, errors.New("threshold breaker: one of consecutive_failures and failure_ratio must be set")
	}
	if cfg.FailureRatio < 0 || cfg.FailureRatio > 1 {
		return nil, fmt.Errorf("threshold breaker: failure_ratio must be from 0 to 1, not %v", cfg.FailureRatio)
	}
	if cfg.OpenTimeout <= 0 {
		return nil, fmt.Errorf("threshold breaker: open_timeout must be above 0, not %v", cfg.OpenTimeout)
	}
	if cfg.Interval < thresholdBuckets {
		return nil, fmt.Errorf("threshold breaker: interval %v cannot have %d buckets", cfg.Interval, thresholdBuckets)
	}
	cfg.HalfOpenProbes = max(1, cfg.HalfOpenProbes)
	t := &threshold{cfg: cfg, stripes: s, note: note, history: history{since: now}}
	t.current.Store(t.newPeriod(Closed, now))
	return t, nil
}

func (t *threshold) newPeriod(s State, now time.Duration) *period {
	return &period{state: s, began: now, window: newWindow(t.cfg.Interval, thresholdBuckets, t.stripes, now)}
}

func (t *threshold) allow(now time.Duration) (ticket, time.Duration) {
	p := t.current.Load()
	if p.state == Closed {
		return ticket{circuit: t, period: p}, 0
	}
	if left := t.cfg.OpenTimeout - (now - p.began); p.state == Open && left > 0 {
		p.window.refused(now)
		return ticket{}, left
	}
	t.mu.Lock()
	change, changed := t.halfOpenLocked(now)
	pass, retryAfter := t.probeLocked(now)
	t.mu.Unlock()
	if changed {
		t.note(change)
	}
	return pass, retryAfter
}

// halfOpenLocked ends an open period whose time is up.
func (t *threshold) halfOpenLocked(now time.Duration) (Change, bool) {
	p := t.current.Load()
	if p.state != Open || now-p.began < t.cfg.OpenTimeout {
		return Change{}, false
	}
	return t.moveLocked(HalfOpen, now), true
}

// moveLocked begins another period.
func (t *threshold) moveLocked(to State, now time.Duration) Change {
	old := t.current.Load()
	switch {
	case to == Open && old.state == Closed:
		t.history.opened(old.window.sum(now), min(t.cfg.Interval, now-old.began))
	case to == Open: // a probe failed: what it opened for is still the reason
		t.history.opening.Last = t.history.last.why
	}
	t.history.since = now
	t.current.Store(t.newPeriod(to, now))
	return t.history.change(to)
}

// probeLocked lets a probe through if there is room for it. Probes that run for
// longer than the open period give their room to others: one that stays silent,
// as a stream may for hours, would otherwise hold all calls off until it ends.
func (t *threshold) probeLocked(now time.Duration) (ticket, time.Duration) {
	p := t.current.Load()
	switch p.state {
	case Closed:
		return ticket{circuit: t, period: p}, 0
	case Open:
		p.window.refused(now)
		return ticket{}, t.cfg.OpenTimeout - (now - p.began)
	case HalfOpen:
	}
	p.running = slices.DeleteFunc(p.running, func(r *probe) bool { return now-r.began > t.cfg.OpenTimeout })
	if wait := t.nextProbeLocked(p, now) - now; wait > 0 {
		p.window.refused(now)
		return ticket{}, wait
	}
	r := &probe{began: now}
	p.running = append(p.running, r)
	return ticket{circuit: t, period: p, probe: r}, 0
}

// nextProbeLocked is when a half-open period has room for another probe, at the
// latest.
func (t *threshold) nextProbeLocked(p *period, now time.Duration) time.Duration {
	if uint32(len(p.running))+p.succeeded < t.cfg.HalfOpenProbes {
		return now
	}
	return max(now, p.running[0].began+t.cfg.OpenTimeout+1)
}

// progress ends a probe: a stream that is answered would otherwise hold its
// place in the half-open state, and so all other calls off, until it ends. In
// the closed state the outcome is the stream's end.
func (t *threshold) progress(k ticket, now time.Duration) bool {
	if k.probe == nil {
		return false
	}
	t.probed(k, Success, "", now)
	return true
}

func (t *threshold) done(k ticket, o Outcome, why string, now time.Duration) {
	p := k.period
	switch {
	case k.progressed: // a probe has one outcome
	case k.probe != nil:
		t.probed(k, o, why, now)
	case o == Success:
		p.window.succeeded(now)
		if p.run.Load() != 0 {
			t.mu.Lock()
			p.run.Store(0)
			t.mu.Unlock()
		}
	case o == Failure:
		t.failed(p, why, now)
	}
}

// failed counts a failure of a call that was let through closed. The Nth one
// trips.
func (t *threshold) failed(p *period, why string, now time.Duration) {
	t.mu.Lock()
	if p != t.current.Load() {
		t.mu.Unlock()
		return
	}
	t.history.failed(why, now)
	p.window.failed(now)
	if now-p.lastRun > t.cfg.Interval {
		p.run.Store(0)
	}
	p.lastRun = now
	run := p.run.Add(1)
	trips := t.cfg.ConsecutiveFailures > 0 && run >= t.cfg.ConsecutiveFailures
	if t.cfg.FailureRatio > 0 && !trips {
		c := p.window.sum(now)
		known := c.Successes + c.Failures
		trips = known >= int64(t.cfg.MinCalls) && float64(c.Failures) >= t.cfg.FailureRatio*float64(known)
	}
	var change Change
	if trips {
		change = t.moveLocked(Open, now)
	}
	t.mu.Unlock()
	if trips {
		t.note(change)
	}
}

// probed counts a probe's outcome, once. That of a probe that gave its room to
// another takes the room of one that still runs: where every answer takes longer
// than the open period, none would count otherwise.
func (t *threshold) probed(k ticket, o Outcome, why string, now time.Duration) {
	change, changed := t.countProbe(k, o, why, now)
	if changed {
		t.note(change)
	}
}

func (t *threshold) countProbe(k ticket, o Outcome, why string, now time.Duration) (Change, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := k.period
	if p != t.current.Load() || k.probe.reported {
		return Change{}, false
	}
	place := slices.Index(p.running, k.probe)
	if o == Ignored {
		if place >= 0 {
			p.running = slices.Delete(p.running, place, place+1)
		}
		return Change{}, false
	}
	k.probe.reported = true
	if place = max(place, 0); place < len(p.running) {
		p.running = slices.Delete(p.running, place, place+1)
	}
	if o == Failure {
		t.history.failed(why, now)
		p.window.failed(now)
		return t.moveLocked(Open, now), true
	}
	p.window.succeeded(now)
	if p.succeeded++; p.succeeded < t.cfg.HalfOpenProbes {
		return Change{}, false
	}
	return t.moveLocked(Closed, now), true
}

func (t *threshold) state(now time.Duration) State {
	p := t.current.Load()
	if p.state == Open && now-p.began >= t.cfg.OpenTimeout {
		return HalfOpen
	}
	return p.state
}

func (t *threshold) quiet(now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.current.Load()
	return p.state == Closed && (p.run.Load() == 0 || now-p.lastRun > t.cfg.Interval) && p.window.floor(now).Failures == 0
}

func (t *threshold) view(now time.Duration) view {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.current.Load()
	v := t.history.view(t.state(now), p.window.sum(now), p.window.length())
	switch {
	case p.state == Open:
		v.nextProbe = max(now, p.began+t.cfg.OpenTimeout)
	case p.state == HalfOpen:
		v.nextProbe = t.nextProbeLocked(p, now)
	}
	if v.state == HalfOpen && p.state == Open {
		v.since = p.began + t.cfg.OpenTimeout // though no call has come since
	}
	if v.state != Closed {
		v.refused = 1
	}
	return v
}
