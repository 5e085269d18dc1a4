package breaker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

const (
	// protection is how many failures in the window are free, so that a method
	// with little traffic is not shed for a single one. zRPC's value.
	protection = 5

	// refusalWeight is how much a call refused here weighs against one that
	// failed. In the SRE book, and in zRPC, they weigh the same: under full load
	// thousands of refusals then stand against one probe a second that succeeds,
	// and the breaker stays open for a minute and more after the backend is well
	// again. Not counting them at all lets the square root of the load through
	// to a dead backend. A tenth sheds more than 99 % of 1,000 calls/s from a
	// dead backend and lets all of them through within six seconds of its
	// recovery (TestRecovery).
	refusalWeight = 0.1

	// openShare is the share of refused calls from which on it is Open.
	openShare = 0.9
)

// adaptive refuses a growing share of the calls as more of them fail:
// client-side throttling, "Site Reliability Engineering", chapter 21, with
// zRPC's parameters and lighter refusals.
//
// With S successes, F failures and R refusals in the window it refuses with
// the probability
//
//	(S + F + refusalWeight·R − protection − K·S) / (S + F + refusalWeight·R + 1)
//
// Outcomes are counted when they are known, not when the call begins:
// otherwise a burst of calls that are all still under way would look like a
// burst of failures. An answer that comes late says that the backend answers
// now, and counts now. A failure that comes late says something about the time
// since its call began: one of a call from before the breaker was open and
// closed again is dropped, or the last victims of an outage, timing out, would
// open it again.
type adaptive struct {
	window *window
	k      float64
	probe  time.Duration
	began  time.Duration // when it was made
	note   func(Change)
	// Whether calls have been refused lately. It goes up with the first refusal,
	// and down when none was refused for a probe interval.
	refusing atomic.Bool
	// How often it was Open and closed again.
	recoveries atomic.Uint32
	_          [64]byte // what follows is written while calls are refused

	// When a call was last let through in spite of failures, and when one was
	// last refused.
	lastPass, lastRefusal atomic.Int64
	wasOpen               atomic.Bool // since refusing went up

	mu      sync.Mutex
	history history
}

func newAdaptive(cfg config.AdaptiveBreaker, s *stripes, note func(Change), now time.Duration) (*adaptive, error) {
	if cfg.Window <= 0 || cfg.Buckets <= 0 || cfg.Window < time.Duration(cfg.Buckets) {
		return nil, fmt.Errorf("adaptive breaker: window %v cannot have %d buckets", cfg.Window, cfg.Buckets)
	}
	if cfg.K <= 1 {
		return nil, fmt.Errorf("adaptive breaker: k must be above 1, not %v", cfg.K)
	}
	if cfg.ProbeInterval <= 0 {
		return nil, fmt.Errorf("adaptive breaker: probe interval must be above 0, not %v", cfg.ProbeInterval)
	}
	a := &adaptive{
		window: newWindow(cfg.Window, cfg.Buckets, s, now), k: cfg.K, probe: cfg.ProbeInterval, began: now, note: note,
		history: history{since: now},
	}
	a.lastPass.Store(int64(now))
	return a, nil
}

func (a *adaptive) allow(now time.Duration) (ticket, time.Duration) {
	pass := ticket{circuit: a, recoveries: a.recoveries.Load()}
	// Too few successes make the probability no smaller.
	if !a.refusing.Load() && a.refusal(a.window.floor(now)) <= 0 {
		return pass, 0
	}
	c := a.window.sum(now)
	p := a.refusal(c)
	if p <= 0 {
		a.settle(now)
		return pass, 0
	}
	last := a.lastPass.Load()
	if int64(now)-last >= int64(a.probe) && a.lastPass.CompareAndSwap(last, int64(now)) {
		return pass, 0
	}
	if rand.Float64() < p { //nolint:gosec // sheds load, guards nothing
		a.refuse(now, c, p)
		return ticket{}, a.probe
	}
	a.lastPass.Store(int64(now))
	return pass, 0
}

// refusal is the probability to refuse, at most 0 while all is well.
func (a *adaptive) refusal(c Counts) float64 {
	if c.Failures == 0 {
		// Refusals alone are no evidence: without this, calls whose outcome is
		// always ignored could keep the breaker open for ever.
		return 0
	}
	total := float64(c.Successes+c.Failures) + refusalWeight*float64(c.Refusals)
	return (total - protection - a.k*float64(c.Successes)) / (total + 1)
}

// refuse counts a refusal, and notes when the state grew worse by it.
func (a *adaptive) refuse(now time.Duration, c Counts, p float64) {
	a.window.refused(now)
	a.lastRefusal.Store(int64(now))
	open := p >= openShare
	if a.refusing.Load() && (!open || a.wasOpen.Load()) {
		return
	}
	a.mu.Lock()
	to := HalfOpen
	if open {
		to = Open
	}
	changed := !a.refusing.Load() || open && !a.wasOpen.Load()
	if !a.refusing.Load() {
		a.history.since = now
	}
	if changed {
		a.history.opened(c, min(a.window.length(), now-a.began))
	}
	if open {
		a.wasOpen.Store(true)
	}
	a.refusing.Store(true)
	change := a.history.change(to)
	a.mu.Unlock()
	if changed {
		a.note(change)
	}
}

// settle notes that it is closed again, once nothing was refused for a while:
// around the edge a call is refused now and then.
func (a *adaptive) settle(now time.Duration) {
	if !a.refusing.Load() || now-time.Duration(a.lastRefusal.Load()) < a.probe {
		return
	}
	a.mu.Lock()
	changed := a.refusing.Load()
	if changed {
		a.history.since = now
		if a.wasOpen.Load() {
			a.recoveries.Add(1)
		}
		a.wasOpen.Store(false)
		a.refusing.Store(false)
	}
	change := a.history.change(Closed)
	a.mu.Unlock()
	if changed {
		a.note(change)
	}
}

func (a *adaptive) state(now time.Duration) State {
	return adaptiveState(a.refusal(a.window.sum(now)))
}

// adaptiveState is Open when at least nine of ten calls are refused, HalfOpen
// when some are.
func adaptiveState(refusal float64) State {
	switch {
	case refusal >= openShare:
		return Open
	case refusal > 0:
		return HalfOpen
	default:
		return Closed
	}
}

func (a *adaptive) quiet(now time.Duration) bool {
	return !a.refusing.Load() && a.window.floor(now).Failures == 0
}

func (a *adaptive) view(now time.Duration) view {
	c := a.window.sum(now)
	p := max(0, a.refusal(c))
	if p == 0 {
		a.settle(now)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.history.view(adaptiveState(p), c, a.window.length())
	v.refused = p
	if v.state != Closed {
		v.nextProbe = max(now, time.Duration(a.lastPass.Load())+a.probe)
	}
	return v
}

func (a *adaptive) progress(_ ticket, now time.Duration) bool {
	a.window.succeeded(now)
	return true
}

func (a *adaptive) done(t ticket, o Outcome, why string, now time.Duration) {
	switch {
	case o == Success && !t.progressed: // else counted when it began
		a.window.succeeded(now)
	case o == Failure && t.recoveries == a.recoveries.Load():
		a.window.failed(now)
		a.mu.Lock()
		a.history.failed(why, now)
		a.mu.Unlock()
	}
}
