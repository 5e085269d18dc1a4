package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

func TestAdaptiveFewFailuresAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, adaptiveConfig())
		if got := calls(t, b, 5, breaker.Failure); got != 5 {
			t.Errorf("%d of the first 5 calls passed", got)
		}
		if b.State() != breaker.Closed {
			t.Errorf("after 5 failures: %v", b.State())
		}
	})
}

// A third of the calls may fail before any is refused: K is 1.5.
func TestAdaptiveToleratesAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, adaptiveConfig())
		for i := range 30_000 {
			o := breaker.Success
			if i%3 == 2 {
				o = breaker.Failure
			}
			if !call(t, b, o) {
				t.Fatalf("call %d was refused", i)
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func TestAdaptiveIgnoredIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, adaptiveConfig())
		if got := calls(t, b, 1000, breaker.Ignored); got != 1000 {
			t.Errorf("%d of 1000 calls passed", got)
		}
		// Open it, then let the failures age while nothing but ignored calls come.
		calls(t, b, 1000, breaker.Failure)
		for range 300 {
			call(t, b, breaker.Ignored)
			time.Sleep(100 * time.Millisecond)
		}
		if b.State() != breaker.Closed {
			t.Errorf("30s after the last failure: %v", b.State())
		}
	})
}

// A burst whose calls are all under way is not a burst of failures.
func TestAdaptiveBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, adaptiveConfig())
		call(t, b, breaker.Failure)
		for i := range 10_000 {
			if _, err := b.Allow(""); err != nil {
				t.Fatalf("call %d of the burst: %v", i, err)
			}
		}
	})
}

func TestAdaptiveProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, adaptiveConfig())
		calls(t, b, 100_000, breaker.Failure)
		if b.State() != breaker.Open {
			t.Fatalf("after 100,000 failures at once: %v", b.State())
		}
		for second := range 9 {
			time.Sleep(time.Second)
			if !call(t, b, breaker.Failure) {
				t.Errorf("no probe in second %d", second)
			}
		}
	})
}

// Only streams that never end, over a backend that was sick and is well again.
func TestAdaptiveRecoversByProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, adaptiveConfig())
		calls(t, b, 1000, breaker.Failure)
		refused := 0
		for range 1000 { // ten seconds
			stream, err := b.Allow("")
			if err == nil {
				stream.Progress()
				stream.Progress() // counts once
			} else {
				refused++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if refused == 0 || b.State() != breaker.Closed {
			t.Errorf("after ten seconds: %v, %d refused", b.State(), refused)
		}
	})
}

func TestAdaptiveStreamThatFailsLateCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, adaptiveConfig())
		for range 100 {
			stream, err := b.Allow("")
			if err != nil {
				break
			}
			stream.Progress()
			stream.Done(breaker.Failure, "SICK")
		}
		// One success and one failure each: K tolerates a third.
		if b.State() == breaker.Closed {
			t.Error("streams that all fail after a message do not count")
		}
	})
}
