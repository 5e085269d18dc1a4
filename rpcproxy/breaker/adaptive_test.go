package breaker_test

import (
	"fmt"
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

// The backend is dead for a minute and then well again, under steady load.
func TestAdaptiveRecovery(t *testing.T) {
	for _, tt := range []struct {
		perSecond int
		leaked    float64       // the greatest share of calls let through while dead
		recovered time.Duration // all calls pass from here on
	}{
		{perSecond: 10, leaked: 0.35, recovered: 10 * time.Second},
		{perSecond: 100, leaked: 0.05, recovered: 8 * time.Second},
		{perSecond: 1000, leaked: 0.01, recovered: 8 * time.Second},
		{perSecond: 10000, leaked: 0.001, recovered: 8 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d per second", tt.perSecond), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, adaptiveConfig())
				tick := time.Second / time.Duration(tt.perSecond)
				run := func(d time.Duration, o breaker.Outcome, each func(at time.Duration, passed bool)) {
					start := time.Now()
					for time.Since(start) < d {
						at := time.Since(start)
						each(at, call(t, b, o))
						time.Sleep(tick)
					}
				}
				run(20*time.Second, breaker.Success, func(_ time.Duration, passed bool) {
					if !passed {
						t.Fatal("a call to the healthy backend was refused")
					}
				})
				passed, total := 0, 0
				run(time.Minute, breaker.Failure, func(at time.Duration, ok bool) {
					if at < 15*time.Second {
						return // the good calls leave the window
					}
					total++
					if ok {
						passed++
					}
				})
				leaked := float64(passed) / float64(total)
				var last time.Duration
				run(30*time.Second, breaker.Success, func(at time.Duration, ok bool) {
					if !ok {
						last = at
					}
				})
				t.Logf("%.3f%% passed while dead; last refusal %v after recovery", leaked*100, last)
				if leaked > tt.leaked {
					t.Errorf("%v of the calls passed while the backend was dead, want at most %v", leaked, tt.leaked)
				}
				if last > tt.recovered {
					t.Errorf("still refusing %v after the recovery, want at most %v", last, tt.recovered)
				}
			})
		})
	}
}

func BenchmarkAllow(b *testing.B) {
	run := func(name string, br *breaker.Group, o breaker.Outcome) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if pass, err := br.Allow(""); err == nil {
						pass.Done(o, "SICK")
					}
				}
			})
		})
	}
	run("adaptive/closed", mustNew(b, adaptiveConfig()), breaker.Success)
	run("adaptive/open", mustNew(b, adaptiveConfig()), breaker.Failure)
	run("threshold/closed", mustNew(b, thresholdConfig(nil)), breaker.Success)
	run("threshold/open", mustNew(b, thresholdConfig(nil)), breaker.Failure)
}
