package breaker_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func adaptiveConfig() config.Breaker {
	return config.Breaker{Kind: "adaptive", Adaptive: config.AdaptiveBreaker{
		Window: 10 * time.Second, Buckets: 40, K: 1.5, ProbeInterval: time.Second,
	}}
}

func thresholdConfig(change func(*config.ThresholdBreaker)) config.Breaker {
	c := config.Breaker{Kind: "threshold", Threshold: config.ThresholdBreaker{
		ConsecutiveFailures: 5, MinCalls: 20, Interval: 10 * time.Second,
		OpenTimeout: 5 * time.Second, HalfOpenProbes: 1,
	}}
	if change != nil {
		change(&c.Threshold)
	}
	return c
}

func mustNew(t testing.TB, cfg config.Breaker) *breaker.Group {
	t.Helper()
	b, err := breaker.New(cfg, breaker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// call makes one call with the outcome, and tells whether it was let through.
func call(t testing.TB, b *breaker.Group, o breaker.Outcome) bool {
	t.Helper()
	pass, err := b.Allow("")
	if err != nil {
		var open *breaker.OpenError
		if !errors.As(err, &open) || open.RetryAfter <= 0 {
			t.Fatalf("Allow: %v, want an OpenError with RetryAfter", err)
		}
		return false
	}
	pass.Done(o, "SICK")
	return true
}

func calls(t testing.TB, b *breaker.Group, n int, o breaker.Outcome) (passed int) {
	t.Helper()
	for range n {
		if call(t, b, o) {
			passed++
		}
	}
	return passed
}

func TestNewRefusesBadConfig(t *testing.T) {
	for name, cfg := range map[string]config.Breaker{
		"kind":         {Kind: "magic"},
		"window":       {Kind: "adaptive", Adaptive: config.AdaptiveBreaker{Buckets: 40, K: 1.5, ProbeInterval: 1}},
		"buckets":      {Kind: "adaptive", Adaptive: config.AdaptiveBreaker{Window: 1, K: 1.5, ProbeInterval: 1}},
		"k":            {Kind: "adaptive", Adaptive: config.AdaptiveBreaker{Window: 100, Buckets: 4, K: 1, ProbeInterval: 1}},
		"probe":        {Kind: "adaptive", Adaptive: config.AdaptiveBreaker{Window: 100, Buckets: 4, K: 1.5}},
		"no limit":     thresholdConfig(func(c *config.ThresholdBreaker) { c.ConsecutiveFailures = 0 }),
		"ratio":        thresholdConfig(func(c *config.ThresholdBreaker) { c.FailureRatio = 1.5 }),
		"open timeout": thresholdConfig(func(c *config.ThresholdBreaker) { c.OpenTimeout = 0 }),
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := breaker.New(cfg, breaker.Options{}); err == nil {
				t.Errorf("New = %T, want an error", b)
			}
		})
	}
}

func TestOffNeverRefuses(t *testing.T) {
	b := mustNew(t, config.Breaker{Kind: "off"})
	if got := calls(t, b, 1000, breaker.Failure); got != 1000 {
		t.Errorf("%d of 1000 calls passed", got)
	}
}

func TestStateNames(t *testing.T) {
	for state, want := range map[breaker.State]string{
		breaker.Closed: "closed", breaker.HalfOpen: "half_open", breaker.Open: "open",
	} {
		if got := state.String(); got != want {
			t.Errorf("%d is %q, want %q", state, got, want)
		}
	}
}

func TestThresholdTripsOnTheNthFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, thresholdConfig(nil))
		calls(t, b, 4, breaker.Failure)
		call(t, b, breaker.Ignored) // breaks no run
		if b.State() != breaker.Closed {
			t.Fatalf("after 4 failures: %v", b.State())
		}
		call(t, b, breaker.Failure)
		if b.State() != breaker.Open || call(t, b, breaker.Success) {
			t.Fatalf("after 5 failures: %v", b.State())
		}
		time.Sleep(2 * time.Second)
		_, err := b.Allow("")
		var open *breaker.OpenError
		if !errors.As(err, &open) || open.RetryAfter != 3*time.Second {
			t.Errorf("2s into 5s of open: %v, want 3s to go", err)
		}
	})
}

func TestThresholdRunMayCrossTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, thresholdConfig(nil))
		time.Sleep(9 * time.Second)
		calls(t, b, 3, breaker.Failure)
		time.Sleep(2 * time.Second)
		calls(t, b, 2, breaker.Failure)
		if b.State() != breaker.Open {
			t.Errorf("5 failures within 2s: %v", b.State())
		}
	})
}

func TestThresholdRatio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, thresholdConfig(func(c *config.ThresholdBreaker) {
			c.ConsecutiveFailures, c.FailureRatio = 0, 0.5
		}))
		// Calls under way are no evidence.
		var passes []breaker.Pass
		for range 30 {
			pass, err := b.Allow("")
			if err != nil {
				t.Fatal(err)
			}
			passes = append(passes, pass)
		}
		for range 9 {
			call(t, b, breaker.Success)
			call(t, b, breaker.Failure)
		}
		if b.State() != breaker.Closed {
			t.Fatalf("with fewer than 20 outcomes: %v", b.State())
		}
		call(t, b, breaker.Success)
		call(t, b, breaker.Failure)
		if b.State() != breaker.Open {
			t.Errorf("with 10 of 20 failed: %v", b.State())
		}
		for i := range passes {
			passes[i].Done(breaker.Success, "SICK")
		}
	})
}

func TestThresholdHalfOpen(t *testing.T) {
	open := func(t *testing.T, probes uint32) *breaker.Group {
		t.Helper()
		b := mustNew(t, thresholdConfig(func(c *config.ThresholdBreaker) { c.HalfOpenProbes = probes }))
		calls(t, b, 5, breaker.Failure)
		time.Sleep(5*time.Second + time.Millisecond)
		return b
	}
	t.Run("all probes must succeed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := open(t, 2)
			first, err1 := b.Allow("")
			second, err2 := b.Allow("")
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if _, err := b.Allow(""); err == nil {
				t.Fatal("a third probe was let through")
			}
			first.Done(breaker.Success, "SICK")
			if b.State() != breaker.HalfOpen {
				t.Fatalf("after one probe: %v", b.State())
			}
			second.Done(breaker.Success, "SICK")
			if b.State() != breaker.Closed {
				t.Fatalf("after both probes: %v", b.State())
			}
		})
	})
	t.Run("a failed probe opens", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := open(t, 1)
			if !call(t, b, breaker.Failure) || b.State() != breaker.Open {
				t.Errorf("after a failed probe: %v", b.State())
			}
		})
	})
	t.Run("an ignored probe frees its place", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := open(t, 1)
			if !call(t, b, breaker.Ignored) || !call(t, b, breaker.Success) || b.State() != breaker.Closed {
				t.Errorf("after an ignored and a good probe: %v", b.State())
			}
		})
	})
	t.Run("a stream that is answered closes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := open(t, 1)
			stream, err := b.Allow("")
			if err != nil {
				t.Fatal(err)
			}
			stream.Progress()
			stream.Progress()
			if b.State() != breaker.Closed {
				t.Errorf("after a probe's first message: %v", b.State())
			}
			stream.Done(breaker.Failure, "SICK")
			stream.Done(breaker.Failure, "SICK")
		})
	})
	t.Run("in the closed state a stream counts at its end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := mustNew(t, thresholdConfig(nil))
			for range 5 {
				stream, err := b.Allow("")
				if err != nil {
					t.Fatal(err)
				}
				stream.Progress()
				stream.Done(breaker.Failure, "SICK")
			}
			if b.State() != breaker.Open {
				t.Errorf("after five broken streams: %v", b.State())
			}
		})
	})
}
