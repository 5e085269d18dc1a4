package breaker

import (
	"errors"
	"fmt"
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
	t := &threshold{open: cfg.OpenTimeout, epoch: time.Now()}
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
			if to == gobreaker.StateOpen {
				t.openedAt.Store(int64(time.Since(t.epoch)))
			}
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errIgnored) },
	})
	return t, nil
}

func (t *threshold) Allow() (Pass, error) {
	report, err := t.breaker.Allow()
	if err != nil {
		return Pass{}, &OpenError{RetryAfter: t.retryAfter()}
	}
	return Pass{call: &thresholdCall{t: t, report: report}}, nil
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
}

// progress ends a probe: a stream that is answered would otherwise hold its
// place in the half-open state, and so all other calls off, until it ends. In
// the closed state the outcome is the stream's end.
func (c *thresholdCall) progress() bool {
	if c.t.breaker.State() != gobreaker.StateHalfOpen {
		return false
	}
	c.report(nil)
	return true
}

func (c *thresholdCall) done(o Outcome, progressed bool) {
	if progressed {
		return // gobreaker takes one report per call
	}
	switch o {
	case Failure:
		c.report(errFailure)
	case Success:
		c.report(nil)
	case Ignored:
		c.report(errIgnored)
	}
}
