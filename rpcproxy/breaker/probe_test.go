package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

func allow(t *testing.T, b *breaker.Group) breaker.Pass {
	t.Helper()
	pass, err := b.Allow("")
	if err != nil {
		t.Fatal(err)
	}
	return pass
}

// halfOpen makes a breaker that opened, and whose open period of 5s is over.
func halfOpen(t *testing.T) *breaker.Group {
	t.Helper()
	b := mustNew(t, thresholdConfig(nil))
	calls(t, b, 5, breaker.Failure)
	time.Sleep(5*time.Second + time.Millisecond)
	return b
}

// A probe that stays silent, as a stream may for hours, holds the others off
// for one open period at most.
func TestThresholdSilentProbe(t *testing.T) {
	for name, tt := range map[string]struct {
		next, silent breaker.Outcome // of the next probe, and of the silent one after it
		want         breaker.State
	}{
		"well again": {next: breaker.Success, silent: breaker.Failure, want: breaker.Closed},
		"still sick": {next: breaker.Failure, silent: breaker.Success, want: breaker.Open},
		"ignored":    {next: breaker.Ignored, silent: breaker.Ignored, want: breaker.HalfOpen},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := halfOpen(t)
				silent := allow(t, b)
				time.Sleep(5 * time.Second)
				if call(t, b, breaker.Success) {
					t.Fatal("a second probe was let through too soon")
				}
				time.Sleep(time.Millisecond)
				next := allow(t, b)
				if call(t, b, breaker.Success) {
					t.Fatal("a third probe was let through")
				}
				next.Done(tt.next, "SICK")
				silent.Done(tt.silent, "SICK")
				if got := b.State(); got != tt.want {
					t.Errorf("the breaker is %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// A probe that was given up counts when it is answered after all: a backend
// may take longer than the open period for every answer.
func TestThresholdLateProbe(t *testing.T) {
	for name, tt := range map[string]struct {
		report func(*breaker.Pass)
		want   breaker.State
	}{
		"success":  {func(p *breaker.Pass) { p.Done(breaker.Success, "SICK") }, breaker.Closed},
		"failure":  {func(p *breaker.Pass) { p.Done(breaker.Failure, "SICK") }, breaker.Open},
		"ignored":  {func(p *breaker.Pass) { p.Done(breaker.Ignored, "SICK") }, breaker.HalfOpen},
		"progress": {(*breaker.Pass).Progress, breaker.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := halfOpen(t)
				late := allow(t, b)
				time.Sleep(5*time.Second + time.Millisecond)
				running := allow(t, b)
				tt.report(&late)
				if got := b.State(); got != tt.want {
					t.Errorf("the breaker is %v, want %v", got, tt.want)
				}
				late.Done(breaker.Failure, "SICK") // says nothing more
				running.Done(breaker.Ignored, "SICK")
				if got := b.State(); got != tt.want {
					t.Errorf("after all ended the breaker is %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// What is left of an earlier half-open period does not count in a later one.
func TestThresholdProbeOfAnEarlierPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := halfOpen(t)
		old := allow(t, b)
		time.Sleep(5*time.Second + time.Millisecond)
		call(t, b, breaker.Failure)
		time.Sleep(5*time.Second + time.Millisecond)
		running := allow(t, b)
		old.Done(breaker.Success, "SICK")
		if got := b.State(); got != breaker.HalfOpen {
			t.Errorf("the breaker is %v", got)
		}
		running.Done(breaker.Success, "SICK")
		if got := b.State(); got != breaker.Closed {
			t.Errorf("after a good probe the breaker is %v", got)
		}
	})
}

// An adaptive breaker has no places to hold: silent streams keep no probe off,
// and one that is answered counts once, however often it says so.
func TestAdaptiveSilentProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, adaptiveConfig())
		calls(t, b, 10_000, breaker.Failure)
		silent := make([]breaker.Pass, 0, 3)
		for range 3 {
			time.Sleep(time.Second)
			silent = append(silent, allow(t, b))
		}
		for i := range silent {
			for range 10_000 {
				silent[i].Progress()
			}
		}
		if got := b.State(); got != breaker.Open {
			t.Errorf("with three streams answered the breaker is %v", got)
		}
		for i := range silent {
			silent[i].Done(breaker.Success, "SICK")
		}
	})
}
