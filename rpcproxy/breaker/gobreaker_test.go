package breaker_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

var (
	errFailure = errors.New("failure")
	errIgnored = errors.New("ignored")
)

// asGobreaker is a gobreaker of the same settings.
func asGobreaker(c config.ThresholdBreaker) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: c.HalfOpenProbes,
		Interval:    c.Interval, BucketPeriod: c.Interval / 10,
		Timeout: c.OpenTimeout,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			if c.ConsecutiveFailures > 0 && n.ConsecutiveFailures >= c.ConsecutiveFailures {
				return true
			}
			known := n.TotalSuccesses + n.TotalFailures
			return c.FailureRatio > 0 && known > 0 && known >= c.MinCalls && float64(n.TotalFailures) >= c.FailureRatio*float64(known)
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errIgnored) },
	})
}

// Random calls, many of them under way at once, some reported long after the
// state has changed, are decided as gobreaker decides them. (It has no rule for
// probes that stay silent, so that none does here for longer than the open
// period; and it counts a call in the bucket in which it began, not in which it
// ended, so that the window is longer than the test.)
func TestThresholdAsGobreaker(t *testing.T) {
	type inFlight struct {
		pass   breaker.Pass
		report func(error)
		probe  bool
		began  time.Time
	}
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			cfg := thresholdConfig(func(c *config.ThresholdBreaker) {
				c.Interval = 1000 * time.Hour
				c.HalfOpenProbes = 1 + uint32(rnd.IntN(3))
				if rnd.IntN(2) == 0 {
					c.ConsecutiveFailures, c.FailureRatio, c.MinCalls = uint32(rnd.IntN(2))*5, 0.4, 10
				}
			})
			ours, theirs := mustNew(t, cfg), asGobreaker(cfg.Threshold)
			var flying []inFlight
			end := func(i int) {
				f := flying[i]
				flying = append(flying[:i], flying[i+1:]...)
				switch n := rnd.IntN(10); {
				case n < 4:
					f.pass.Done(breaker.Failure, "SICK")
					f.report(errFailure)
				case n < 5:
					f.pass.Done(breaker.Ignored, "")
					f.report(errIgnored)
				default:
					f.pass.Done(breaker.Success, "")
					f.report(nil)
				}
			}
			for step := range 2000 {
				switch n := rnd.IntN(10); {
				case n < 5:
					pass, err := ours.Allow("")
					report, theirErr := theirs.Allow()
					if (err == nil) != (theirErr == nil) {
						t.Fatalf("seed %d, step %d: ours says %v, gobreaker %v", seed, step, err, theirErr)
					}
					if err == nil {
						flying = append(flying, inFlight{pass, report, ours.State() == breaker.HalfOpen, time.Now()})
					}
				case n < 9 && len(flying) > 0:
					end(rnd.IntN(len(flying)))
				default:
					// Never a whole number of open periods: whether one is over on the
					// instant is nobody's business.
					time.Sleep(time.Duration(1+rnd.IntN(3000))*time.Millisecond + 7*time.Microsecond)
					for i := len(flying) - 1; i >= 0; i-- {
						if flying[i].probe && time.Since(flying[i].began) > time.Second {
							end(i)
						}
					}
				}
				want := map[gobreaker.State]breaker.State{
					gobreaker.StateClosed: breaker.Closed, gobreaker.StateHalfOpen: breaker.HalfOpen, gobreaker.StateOpen: breaker.Open,
				}[theirs.State()]
				if got := ours.State(); got != want {
					t.Fatalf("seed %d, step %d: ours is %v, gobreaker %v", seed, step, got, want)
				}
			}
		})
	}
}
