package breaker

import (
	"fmt"
	"math/rand/v2"
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
	// recovery (TestAdaptiveRecovery).
	refusalWeight = 0.1
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
// burst of failures.
type adaptive struct {
	window *window
	k      float64
	probe  time.Duration
	// When a call was last let through in spite of failures, since the
	// window's epoch.
	lastPass atomic.Int64
}

func newAdaptive(cfg config.AdaptiveBreaker) (*adaptive, error) {
	if cfg.Window <= 0 || cfg.Buckets <= 0 || cfg.Window < time.Duration(cfg.Buckets) {
		return nil, fmt.Errorf("adaptive breaker: window %v cannot have %d buckets", cfg.Window, cfg.Buckets)
	}
	if cfg.K <= 1 {
		return nil, fmt.Errorf("adaptive breaker: k must be above 1, not %v", cfg.K)
	}
	if cfg.ProbeInterval <= 0 {
		return nil, fmt.Errorf("adaptive breaker: probe interval must be above 0, not %v", cfg.ProbeInterval)
	}
	return &adaptive{window: newWindow(cfg.Window, cfg.Buckets), k: cfg.K, probe: cfg.ProbeInterval}, nil
}

// Allow takes no lock and allocates nothing, unless it refuses.
func (a *adaptive) Allow() (Pass, error) {
	now := a.window.now()
	p := a.refusal(a.window.sum(now))
	if p <= 0 {
		return Pass{call: a}, nil
	}
	last := a.lastPass.Load()
	if int64(now)-last >= int64(a.probe) && a.lastPass.CompareAndSwap(last, int64(now)) {
		return Pass{call: a}, nil
	}
	if rand.Float64() < p { //nolint:gosec // sheds load, guards nothing
		a.window.refusals.Add(1)
		return Pass{}, &OpenError{RetryAfter: a.probe}
	}
	a.lastPass.Store(int64(now))
	return Pass{call: a}, nil
}

// refusal is the probability to refuse, at most 0 while all is well.
func (a *adaptive) refusal(c counts) float64 {
	if c.failures == 0 {
		// Refusals alone are no evidence: without this, calls whose outcome is
		// always ignored could keep the breaker open for ever.
		return 0
	}
	total := float64(c.successes+c.failures) + refusalWeight*float64(c.refusals)
	return (total - protection - a.k*float64(c.successes)) / (total + 1)
}

// State is Open when at least nine of ten calls are refused, HalfOpen when
// some are.
func (a *adaptive) State() State {
	switch p := a.refusal(a.window.sum(a.window.now())); {
	case p >= 0.9:
		return Open
	case p > 0:
		return HalfOpen
	default:
		return Closed
	}
}

func (a *adaptive) progress() bool {
	a.add(Success)
	return true
}

func (a *adaptive) done(o Outcome, progressed bool) {
	if o == Success && progressed {
		return // counted when it began
	}
	a.add(o)
}

func (a *adaptive) add(o Outcome) {
	a.window.advance(a.window.now())
	switch o {
	case Success:
		a.window.successes.Add(1)
	case Failure:
		a.window.failures.Add(1)
	case Ignored:
	}
}
