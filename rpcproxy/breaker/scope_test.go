package breaker_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

func callAs(t testing.TB, g *breaker.Group, app string, o breaker.Outcome) bool {
	t.Helper()
	pass, err := g.Allow(app)
	if err != nil {
		return false
	}
	pass.Done(o, "SICK")
	return true
}

// refusal is how an app's call is refused. An adaptive breaker that is open lets
// some through, which say nothing here.
func refusal(t *testing.T, g *breaker.Group, app string) *breaker.OpenError {
	t.Helper()
	for range 100 {
		pass, err := g.Allow(app)
		if open, ok := errors.AsType[*breaker.OpenError](err); ok {
			return open
		}
		pass.Done(breaker.Ignored, "")
	}
	t.Fatal("a hundred calls were let through")
	return nil
}

func kindsAndScopes(t *testing.T, test func(t *testing.T, cfg config.Breaker)) {
	for _, cfg := range []config.Breaker{adaptiveConfig(), thresholdConfig(nil)} {
		for _, scope := range []string{"method", "app"} {
			cfg.Scope = scope
			t.Run(cfg.Kind+", scope "+scope, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, cfg) })
			})
		}
	}
}

// With scope method everybody is kept from a sick method; with scope app one
// app's failures concern it alone.
func TestScope(t *testing.T) {
	kindsAndScopes(t, func(t *testing.T, cfg config.Breaker) {
		g := mustNew(t, cfg)
		for range 2000 {
			callAs(t, g, "sick", breaker.Failure)
		}
		if open := refusal(t, g, "sick"); open.AppOnly != (cfg.Scope == "app") || open.Forced != nil || open.RetryAfter <= 0 {
			t.Fatalf("refused with %+v", open)
		}
		if got := g.State(); got != breaker.Open {
			t.Errorf("State is %v", got)
		}
		refused := 0
		for range 100 { // none of which says anything: the breaker stays as it is
			if !callAs(t, g, "well", breaker.Ignored) {
				refused++
			}
		}
		if cfg.Scope == "app" && refused > 0 || cfg.Scope == "method" && refused < 75 {
			t.Errorf("%d of another app's 100 calls were refused", refused)
		}
		if got := g.OpenApps(); cfg.Scope == "app" && got != 1 || cfg.Scope == "method" && got != 0 {
			t.Errorf("%d apps are refused by breakers of their own", got)
		}
	})
}

// What one app has used up keeps that app away, and nobody else, in either
// scope.
func TestExhaustedConcernsTheApp(t *testing.T) {
	kindsAndScopes(t, func(t *testing.T, cfg config.Breaker) {
		g := mustNew(t, cfg)
		for range 2000 {
			callAs(t, g, "greedy", breaker.Exhausted)
			if !callAs(t, g, "modest", breaker.Success) || !callAs(t, g, "modest", breaker.Ignored) {
				t.Fatal("another app's call was refused")
			}
		}
		if open := refusal(t, g, "greedy"); !open.AppOnly {
			t.Fatalf("refused with %+v", open)
		}
		views := g.Views()
		v := views[len(views)-1]
		if v.App != "greedy" || !v.AppOnly || v.State != breaker.Open || v.LastFailure.Why != "SICK" {
			t.Errorf("the app's breaker is shown as %+v", v)
		}
		// It recovers like any other.
		for range 3000 {
			callAs(t, g, "greedy", breaker.Success)
			time.Sleep(10 * time.Millisecond)
		}
		if !callAs(t, g, "greedy", breaker.Success) || g.OpenApps() != 0 {
			t.Errorf("thirty seconds after its last refusal the app is kept away: %+v", g.Views())
		}
	})
}

// A method that answers nobody is sick to all, though some app has used up what
// it has: that app's failures count for everybody.
func TestExhaustedAppSeesASickMethod(t *testing.T) {
	for _, cfg := range []config.Breaker{adaptiveConfig(), thresholdConfig(nil)} {
		synctest.Test(t, func(t *testing.T) {
			g := mustNew(t, cfg)
			callAs(t, g, "a", breaker.Exhausted)
			for range 2000 {
				callAs(t, g, "a", breaker.Failure)
			}
			if open := refusal(t, g, "a"); open.AppOnly {
				t.Fatalf("%s: refused with %+v, want everybody's breaker to be open", cfg.Kind, open)
			}
			if got := g.OpenApps(); got != 0 {
				t.Errorf("%s: %d apps have an open breaker of their own", cfg.Kind, got)
			}
		})
	}
}

// A probe of everybody's that the app's own breaker keeps back, and the other way
// round, holds no place.
func TestRefusedByOneOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, thresholdConfig(nil))
		for range 5 {
			callAs(t, g, "a", breaker.Exhausted)
		}
		for range 5 {
			callAs(t, g, "b", breaker.Failure)
		}
		time.Sleep(5 * time.Second) // both half-open
		probe, err := g.Allow("b")
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if callAs(t, g, "a", breaker.Success) {
				t.Fatal("a second probe went through")
			}
		}
		probe.Done(breaker.Success, "")
		if !callAs(t, g, "a", breaker.Success) || g.OpenApps() != 0 {
			t.Error("the app's own breaker lost its probe")
		}
	})
}

// While no app has used up anything, and once that is forgotten, apps cost
// nothing.
func TestAppsAreForgotten(t *testing.T) {
	kindsAndScopes(t, func(t *testing.T, cfg config.Breaker) {
		g := mustNew(t, cfg)
		for i := range 10_000 {
			callAs(t, g, strconv.Itoa(i), breaker.Success)
		}
		if got := g.Apps(); cfg.Scope == "method" && got != 0 {
			t.Fatalf("%d apps are remembered", got)
		}
		callAs(t, g, "greedy", breaker.Exhausted)
		callAs(t, g, "other", breaker.Exhausted)
		time.Sleep(breaker.SweepInterval + cfg.Adaptive.Window + cfg.Threshold.Interval)
		callAs(t, g, "greedy", breaker.Success) // looks around
		if got, most := g.Apps(), 1; got > most {
			t.Errorf("%d apps are remembered, want %d at most", got, most)
		}
	})
}

// However many apps call, no more than a fixed number have a breaker of their
// own, and one that calls all the time keeps it.
func TestAppsAreBounded(t *testing.T) {
	kindsAndScopes(t, func(t *testing.T, cfg config.Breaker) {
		g := mustNew(t, cfg)
		for range 2000 {
			callAs(t, g, "regular", breaker.Exhausted)
		}
		for i := range 10 * breaker.MaxApps {
			callAs(t, g, "flood-"+strconv.Itoa(i), breaker.Exhausted)
			callAs(t, g, "regular", breaker.Exhausted)
			time.Sleep(5 * time.Millisecond)
		}
		if got := g.Apps(); got != breaker.MaxApps {
			t.Errorf("%d apps have a breaker of their own, want %d", got, breaker.MaxApps)
		}
		if got := g.OpenApps(); got != 1 {
			t.Errorf("%d apps' breakers are open, want the one that calls all the time", got)
		}
		if got := len(g.Views()); got > breaker.MaxApps+1 {
			t.Errorf("%d breakers are shown", got)
		}
	})
}

// Letting calls through and counting their successes allocates nothing.
func TestAllowAllocatesNothing(t *testing.T) {
	for _, cfg := range []config.Breaker{adaptiveConfig(), thresholdConfig(nil), {Kind: "off"}} {
		for _, scope := range []string{"method", "app"} {
			cfg.Scope = scope
			g := mustNew(t, cfg)
			callAs(t, g, "a", breaker.Exhausted)
			if got := testing.AllocsPerRun(1000, func() {
				pass, err := g.Allow("a")
				if err != nil {
					t.Fatal(err)
				}
				pass.Done(breaker.Success, "")
			}); got > 0 {
				t.Errorf("%s, scope %s: %v allocations", cfg.Kind, scope, got)
			}
		}
	}
}
