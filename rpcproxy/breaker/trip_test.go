package breaker_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// atOnce reports n calls, by as many goroutines as there are.
func atOnce(t *testing.T, g *breaker.Group, n int, o func(i int) breaker.Outcome) {
	t.Helper()
	passes := make([]breaker.Pass, n)
	for i := range passes {
		passes[i] = allow(t, g)
	}
	begin := make(chan struct{})
	var reports sync.WaitGroup
	for i := range passes {
		reports.Go(func() {
			<-begin
			passes[i].Done(o(i), "SICK")
		})
	}
	close(begin)
	reports.Wait()
}

// The Nth failure trips, not the one before nor the one after, when they come
// all at once, too.
func TestThresholdTripsOnTheNthOfManyAtOnce(t *testing.T) {
	failure := func(int) breaker.Outcome { return breaker.Failure }
	for name, tt := range map[string]struct {
		change func(*config.ThresholdBreaker)
		good   int // successes before
		n      int // calls that leave it closed
		o      func(i int) breaker.Outcome
	}{
		"in a row": {
			func(c *config.ThresholdBreaker) { c.ConsecutiveFailures = 200 },
			0, 199, failure,
		},
		"a share, by the number of calls": {
			func(c *config.ThresholdBreaker) { c.ConsecutiveFailures, c.FailureRatio, c.MinCalls = 0, 0.5, 200 },
			0, 199, func(i int) breaker.Outcome { return breaker.Success + breaker.Outcome(i%2) },
		},
		"a share, by the share": {
			func(c *config.ThresholdBreaker) { c.ConsecutiveFailures, c.FailureRatio, c.MinCalls = 0, 0.25, 10 },
			150, 49, failure,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := thresholdConfig(tt.change)
			cfg.Threshold.Interval = time.Hour
			for range 20 {
				g := mustNew(t, cfg)
				calls(t, g, tt.good, breaker.Success)
				atOnce(t, g, tt.n, tt.o)
				if g.State() != breaker.Closed {
					t.Fatal("it opened too soon")
				}
				call(t, g, breaker.Failure)
				if g.State() != breaker.Open {
					t.Fatal("it did not open")
				}
			}
		})
	}
}

// However many calls come when the open period is over, no more probes than are
// allowed go through.
func TestThresholdProbesOfManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, thresholdConfig(func(c *config.ThresholdBreaker) { c.HalfOpenProbes = 3 }))
		for range 50 {
			calls(t, g, 5, breaker.Failure)
			time.Sleep(5 * time.Second)
			passed := make(chan breaker.Pass, 64)
			var callers sync.WaitGroup
			for range 64 {
				callers.Go(func() {
					if pass, err := g.Allow(""); err == nil {
						passed <- pass
					}
				})
			}
			callers.Wait()
			if n := len(passed); n != 3 {
				t.Fatalf("%d probes went through, want 3", n)
			}
			for range 3 {
				pass := <-passed
				pass.Done(breaker.Success, "")
			}
			if g.State() != breaker.Closed {
				t.Fatal("it did not close")
			}
		}
	})
}
