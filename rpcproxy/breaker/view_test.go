package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

func view(t *testing.T, g *breaker.Group) breaker.View {
	t.Helper()
	views := g.Views()
	if len(views) != 1 {
		t.Fatalf("%d views, want 1", len(views))
	}
	return views[0]
}

func TestThresholdView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, thresholdConfig(nil))
		start := time.Now()
		if v := view(t, g); v.State != breaker.Closed || !v.Since.Equal(start) || v.Reason() != "" || v.LastFailure != nil || !v.NextProbe.IsZero() {
			t.Errorf("at first: %+v", v)
		}
		calls(t, g, 3, breaker.Success)
		time.Sleep(2 * time.Second)
		calls(t, g, 5, breaker.Failure)
		opened := time.Now()
		time.Sleep(time.Second)
		calls(t, g, 4, breaker.Success) // refused
		v := view(t, g)
		if v.State != breaker.Open || !v.Since.Equal(opened) || !v.NextProbe.Equal(opened.Add(5*time.Second)) || v.Refused != 1 {
			t.Errorf("open: %+v", v)
		}
		if got, want := v.Reason(), "5 of 8 calls failed within 2s, the last one with SICK"; got != want {
			t.Errorf("reason %q, want %q", got, want)
		}
		if v.LastFailure.Why != "SICK" || !v.LastFailure.At.Equal(opened) || v.Window.Refusals != 4 {
			t.Errorf("last failure %+v, window %+v", v.LastFailure, v.Window)
		}
		time.Sleep(4 * time.Second)
		if v := view(t, g); v.State != breaker.HalfOpen || !v.Since.Equal(time.Now()) || !v.NextProbe.Equal(time.Now()) {
			t.Errorf("when its time is up: %+v", v)
		}
		probe := allow(t, g)
		if v := view(t, g); v.State != breaker.HalfOpen || !v.NextProbe.Equal(time.Now().Add(5*time.Second+1)) {
			t.Errorf("with a probe under way: %+v", v)
		}
		probe.Done(breaker.Success, "")
		if v := view(t, g); v.State != breaker.Closed || !v.Since.Equal(time.Now()) || v.Reason() != "" || v.LastFailure == nil {
			t.Errorf("closed again: %+v", v)
		}
	})
}

func TestAdaptiveView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, adaptiveConfig())
		time.Sleep(3 * time.Second)
		calls(t, g, 10_000, breaker.Failure)
		opened := time.Now()
		time.Sleep(500 * time.Millisecond)
		v := view(t, g)
		if v.State != breaker.Open || !v.Since.Equal(opened) || v.Refused < 0.9 || v.Opening == nil || v.Opening.Over != 3*time.Second {
			t.Errorf("open: %+v", v)
		}
		if next := v.NextProbe.Sub(opened); next < time.Second/2 || next > time.Second {
			t.Errorf("the next probe comes %v after it opened", next)
		}
		if v.Window.Failures+v.Window.Refusals != 10_000 || v.WindowLength != 10*time.Second || v.LastFailure.Why != "SICK" {
			t.Errorf("window %+v, last failure %+v", v.Window, v.LastFailure)
		}
		time.Sleep(11 * time.Second) // nobody calls
		if v := view(t, g); v.State != breaker.Closed || v.Reason() != "" || !v.Since.Equal(time.Now()) {
			t.Errorf("after its window: %+v", v)
		}
	})
}
