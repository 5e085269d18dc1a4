package breaker

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/rpcgate/rpcgate/config"
)

// Outcomes as gobreaker takes them.
var (
	errFailure = errors.New("failure")
	errIgnored = errors.New("ignored")
)

// threshold opens after a run or a share of failures: gobreaker's two-step
// breaker. It takes a mutex per call and allocates.
type threshold struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	open    time.Duration
	// When it last opened, in nanoseconds since epoch.
	epoch    time.Time
	openedAt atomic.Int64
	// The number of the half-open period; 0: the state is another.
	period  atomic.Uint64
	periods uint64 // under gobreaker's lock

	mu     sync.Mutex
	probes map[*thresholdCall]struct{} // let through half-open, not yet reported
}

func newThreshold(cfg config.ThresholdBreaker) (*threshold, error) {
	if cfg.ConsecutiveFailures == 0 && cfg.FailureRatio == 0 {
		return nil, errors.New("threshold breaker: one of consecutive_failures and failure_ratio must be set")
	}
	if cfg.FailureRatio < 0 || cfg.FailureRatio > 1 {
		return nil, fmt.Errorf("threshold breaker: failure_ratio must be from 0 to 1, not %v", cfg.FailureRatio)
	}
	if cfg.OpenTimeout <= 0 {
		return nil, fmt.Errorf("threshold breaker: open_timeout must be above 0, not %v", cfg.OpenTimeout)
	}
	t := &threshold{open: cfg.OpenTimeout, epoch: time.Now(), probes: map[*thresholdCall]struct{}{}}
	t.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: cfg.HalfOpenProbes,
		Interval:    cfg.Interval,
		// A rolling window; with a fixed one, failures on both sides of its end
		// would not add up.
		BucketPeriod: cfg.Interval / 10,
		Timeout:      cfg.OpenTimeout,
		// It is asked after the failure was counted: the Nth failure trips.
		ReadyToTrip: func(c gobreaker.Counts) bool {
			if cfg.ConsecutiveFailures > 0 && c.ConsecutiveFailures >= cfg.ConsecutiveFailures {
				return true
			}
			// Calls still under way are in Requests, but say nothing yet.
			known := c.TotalSuccesses + c.TotalFailures
			return cfg.FailureRatio > 0 && known > 0 && known >= cfg.MinCalls &&
				float64(c.TotalFailures) >= cfg.FailureRatio*float64(known)
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			t.period.Store(0)
			switch to {
			case gobreaker.StateOpen:
				t.openedAt.Store(int64(time.Since(t.epoch)))
			case gobreaker.StateHalfOpen:
				t.periods++
				t.period.Store(t.periods)
			case gobreaker.StateClosed:
			}
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errIgnored) },
	})
	return t, nil
}

func (t *threshold) Allow() (Pass, error) {
	report, err := t.breaker.Allow()
	if errors.Is(err, gobreaker.ErrTooManyRequests) && t.giveUpProbes() {
		report, err = t.breaker.Allow()
	}
	if err != nil {
		return Pass{}, &OpenError{RetryAfter: t.retryAfter()}
	}
	c := &thresholdCall{t: t, report: report, period: t.period.Load()}
	if c.period != 0 {
		c.began = time.Now()
		t.mu.Lock()
		t.probes[c] = struct{}{}
		t.mu.Unlock()
	}
	return Pass{call: c}, nil
}

// giveUpProbes frees the places of probes that run for longer than the open
// period, and tells whether there were any: a stream that stays silent would
// otherwise hold all other calls off until it ends.
func (t *threshold) giveUpProbes() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	some := false
	for c := range t.probes {
		if time.Since(c.began) > t.open {
			t.reportLocked(c, errIgnored)
			some = true
		}
	}
	return some
}

// probed reports a probe's outcome, once. That of a probe that was given up
// takes the place of one that still runs: where every answer takes longer than
// the open period, none would count otherwise.
func (t *threshold) probed(c *thresholdCall, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, running := t.probes[c]; running {
		t.reportLocked(c, err)
		return
	}
	if c.reported || errors.Is(err, errIgnored) || c.period != t.period.Load() {
		return
	}
	c.reported = true
	for other := range t.probes {
		if other.period == c.period {
			t.reportLocked(other, errIgnored)
			break
		}
	}
	if report, refused := t.breaker.Allow(); refused == nil {
		report(err)
	}
}

// reportLocked reports a running probe. One that is ignored may be heard of
// later.
func (t *threshold) reportLocked(c *thresholdCall, err error) {
	delete(t.probes, c)
	c.reported = !errors.Is(err, errIgnored)
	c.report(err)
}

// retryAfter is what is left of the open period. In the half-open state, where
// all probes are taken, it is a whole one: should they fail, it begins anew.
func (t *threshold) retryAfter() time.Duration {
	left := t.open - (time.Since(t.epoch) - time.Duration(t.openedAt.Load()))
	if left <= 0 {
		return t.open
	}
	return left
}

func (t *threshold) State() State {
	switch t.breaker.State() {
	case gobreaker.StateOpen:
		return Open
	case gobreaker.StateHalfOpen:
		return HalfOpen
	default:
		return Closed
	}
}

type thresholdCall struct {
	t      *threshold
	report func(error)
	// Of a probe: the half-open period that it is of, and when it began.
	period uint64
	began  time.Time
	// Whether the probe's outcome is known; under the threshold's lock.
	reported bool
}

// progress ends a probe: a stream that is answered would otherwise hold its
// place in the half-open state, and so all other calls off, until it ends. In
// the closed state the outcome is the stream's end.
func (c *thresholdCall) progress() bool {
	if c.period == 0 {
		return false
	}
	c.t.probed(c, nil)
	return true
}

func (c *thresholdCall) done(o Outcome, progressed bool) {
	if progressed {
		return // gobreaker takes one report per call
	}
	err := errIgnored
	switch o {
	case Failure:
		err = errFailure
	case Success:
		err = nil
	case Ignored:
	}
	if c.period != 0 {
		c.t.probed(c, err)
		return
	}
	c.report(err)
}
