package breaker_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// A result that comes in another period than its call was let through in changes
// nothing, neither the state nor what is counted towards the next one.
func TestThresholdLateResults(t *testing.T) {
	cfg := thresholdConfig(func(c *config.ThresholdBreaker) { c.FailureRatio, c.HalfOpenProbes = 0.5, 2 })
	// The periods, by what leads to each.
	steps := []struct {
		want breaker.State
		to   func(t *testing.T, g *breaker.Group)
	}{
		{breaker.Closed, func(*testing.T, *breaker.Group) {}},
		{breaker.Open, func(t *testing.T, g *breaker.Group) { calls(t, g, 5, breaker.Failure) }},
		{breaker.HalfOpen, func(t *testing.T, g *breaker.Group) {
			time.Sleep(5 * time.Second)
			call(t, g, breaker.Ignored)
		}},
		{breaker.Open, func(t *testing.T, g *breaker.Group) { call(t, g, breaker.Failure) }},
		{breaker.HalfOpen, func(t *testing.T, g *breaker.Group) {
			time.Sleep(5 * time.Second)
			call(t, g, breaker.Success)
		}},
		{breaker.Closed, func(t *testing.T, g *breaker.Group) { call(t, g, breaker.Success) }},
	}
	for begun, from := range steps {
		if from.want == breaker.Open {
			continue // no call begins there
		}
		for ended := begun + 1; ended < len(steps); ended++ {
			for _, o := range []breaker.Outcome{breaker.Success, breaker.Failure, breaker.Ignored} {
				t.Run(fmt.Sprintf("begun in %d, %d ends in %d", begun, o, ended), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						g := mustNew(t, cfg)
						var late []breaker.Pass
						for i, step := range steps[:ended+1] {
							step.to(t, g)
							if got := g.State(); got != step.want {
								t.Fatalf("in step %d: %v, want %v", i, got, step.want)
							}
							for i == begun && len(late) < 10 {
								pass, err := g.Allow("")
								if err != nil {
									break
								}
								late = append(late, pass)
							}
							if i == begun && from.want == breaker.HalfOpen {
								// Its room is given to others, as it stays silent.
								time.Sleep(5*time.Second + time.Millisecond)
							}
						}
						before := g.Views()[0]
						for i := range late {
							late[i].Done(o, "LATE")
						}
						after := g.Views()[0]
						if after.State != before.State || after.Window != before.Window {
							t.Errorf("from %v with %+v to %v with %+v", before.State, before.Window, after.State, after.Window)
						}
						if before.State != breaker.Closed {
							return
						}
						calls(t, g, 4, breaker.Failure)
						if g.State() != breaker.Closed {
							t.Error("the fourth failure of this period opened it")
						}
						call(t, g, breaker.Failure)
						if g.State() != breaker.Open {
							t.Error("the fifth failure of this period did not open it")
						}
					})
				})
			}
		}
	}
}

// The last victims of an outage, which time out after the backend is well again,
// do not open the breaker once more. Those that are answered after all count.
func TestAdaptiveLateResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, adaptiveConfig())
		var victims []breaker.Pass
		for range 200 {
			victims = append(victims, allow(t, g))
		}
		calls(t, g, 1000, breaker.Failure)
		if g.State() != breaker.Open {
			t.Fatalf("the breaker is %v", g.State())
		}
		// While the outage lasts they are part of it.
		before := g.Views()[0].Window.Failures
		for i := range victims[:50] {
			victims[i].Done(breaker.Failure, "LATE")
		}
		if got := g.Views()[0].Window.Failures; got != before+50 {
			t.Errorf("%d failures count, want %d", got, before+50)
		}
		for range 3000 { // thirty seconds, at full load
			call(t, g, breaker.Success)
			time.Sleep(10 * time.Millisecond)
		}
		well := g.Views()[0]
		if well.State != breaker.Closed {
			t.Fatalf("thirty seconds after the recovery: %v", well.State)
		}
		for i := range victims[50:150] {
			victims[50+i].Done(breaker.Failure, "LATE")
		}
		if got := g.Views()[0].Window; got != well.Window {
			t.Errorf("failures of before the recovery count: %+v, then %+v", well.Window, got)
		}
		for i := range victims[150:] {
			victims[150+i].Done(breaker.Success, "")
		}
		if got := g.Views()[0].Window.Successes; got != well.Window.Successes+50 {
			t.Errorf("%d successes count, want %d", got, well.Window.Successes+50)
		}
		// What began since counts as ever.
		pass := allow(t, g)
		pass.Done(breaker.Failure, "SICK")
		if got := g.Views()[0].Window.Failures; got != well.Window.Failures+1 {
			t.Errorf("%d failures count, want %d", got, well.Window.Failures+1)
		}
	})
}

// Shedding that comes and goes without the breaker ever being open drops
// nothing: failures of slow calls would otherwise never be counted.
func TestAdaptiveSlowFailuresCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &load{group: mustNew(t, adaptiveConfig()), tick: 10 * time.Millisecond, latency: 3 * time.Second}
		n, refused := 0, 0
		for range 12_000 { // two minutes, in which four of ten calls fail
			n++
			o := breaker.Success
			if n%10 < 4 {
				o = breaker.Failure
			}
			l.run(l.tick, o, func(_ time.Duration, passed bool) {
				if n > 6000 && !passed {
					refused++
				}
			})
		}
		// (F − 5 − 0.5·S) / (S + F) is a tenth.
		if share := float64(refused) / 6000; share < 0.02 || share > 0.2 {
			t.Errorf("%.3f of the calls were refused", share)
		}
	})
}
