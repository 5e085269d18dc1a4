package breaker_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

func force(t *testing.T, g *breaker.Group, app string, all bool, s breaker.State, d time.Duration) {
	t.Helper()
	f := &breaker.Forced{State: s, By: "op"}
	if d > 0 {
		f.Until = time.Now().Add(d)
	}
	if err := g.Force(app, all, f); err != nil {
		t.Fatal(err)
	}
}

func lift(t *testing.T, g *breaker.Group, app string, all bool) {
	t.Helper()
	if err := g.Force(app, all, nil); err != nil {
		t.Fatal(err)
	}
}

func allKinds(t *testing.T, test func(t *testing.T, cfg config.Breaker)) {
	kindsAndScopes(t, test)
	synctest.Test(t, func(t *testing.T) { test(t, config.Breaker{Kind: "off"}) })
}

func TestForcedOpen(t *testing.T) {
	allKinds(t, func(t *testing.T, cfg config.Breaker) {
		g := mustNew(t, cfg)
		force(t, g, "", true, breaker.Open, time.Minute)
		_, err := g.Allow("a")
		var open *breaker.OpenError
		if !errors.As(err, &open) || open.Forced == nil || open.Forced.By != "op" || open.AppOnly || open.RetryAfter != 30*time.Second {
			t.Fatalf("Allow: %+v", err)
		}
		if g.State() != breaker.Open {
			t.Errorf("State is %v", g.State())
		}
		time.Sleep(50 * time.Second)
		if _, err := g.Allow("b"); !errors.As(err, &open) || open.RetryAfter != 10*time.Second {
			t.Fatalf("ten seconds before the end: %v", err)
		}
		time.Sleep(10 * time.Second)
		if !callAs(t, g, "a", breaker.Success) || g.State() != breaker.Closed || g.Views() != nil && g.Views()[0].Forced != nil {
			t.Error("it is forced open past its time")
		}
	})
}

// What is forced closed counts nothing, and begins anew afterwards.
func TestForcedClosed(t *testing.T) {
	kindsAndScopes(t, func(t *testing.T, cfg config.Breaker) {
		g := mustNew(t, cfg)
		for range 2000 {
			callAs(t, g, "a", breaker.Failure)
		}
		force(t, g, "", true, breaker.Closed, 0)
		var under []breaker.Pass
		for range 2000 {
			pass, err := g.Allow("a")
			if err != nil {
				t.Fatal("a call was refused")
			}
			under = append(under, pass)
			callAs(t, g, "a", breaker.Failure)
		}
		time.Sleep(time.Hour)
		lift(t, g, "", true)
		for i := range under {
			under[i].Done(breaker.Failure, "LATE")
		}
		for range 4 {
			if !callAs(t, g, "a", breaker.Failure) {
				t.Fatal("something was counted while it was forced closed")
			}
		}
		for range 2000 {
			callAs(t, g, "a", breaker.Failure)
		}
		if g.State() != breaker.Open {
			t.Error("it does not work by itself again")
		}
	})
}

// The word on one app goes before that on all, which goes before what the
// breakers would do.
func TestForcedForAnApp(t *testing.T) {
	allKinds(t, func(t *testing.T, cfg config.Breaker) {
		g := mustNew(t, cfg)
		passes := func(app string) bool { return callAs(t, g, app, breaker.Success) }
		force(t, g, "bad", false, breaker.Open, 0)
		if passes("bad") || !passes("good") || g.State() != breaker.Closed || g.OpenApps() != 1 {
			t.Error("forced open for one app")
		}
		force(t, g, "", true, breaker.Open, 0)
		force(t, g, "vip", false, breaker.Closed, 0)
		if passes("bad") || passes("good") || !passes("vip") {
			t.Error("forced open for all but one")
		}
		lift(t, g, "bad", false)
		if passes("bad") {
			t.Error("the word on all does not hold for an app without one")
		}
		lift(t, g, "", true)
		if !passes("bad") || !passes("good") || !passes("vip") {
			t.Error("not lifted")
		}
		lift(t, g, "vip", false)
		if !passes("vip") {
			t.Error("not lifted for the app")
		}
	})
}

func TestForcedViews(t *testing.T) {
	allKinds(t, func(t *testing.T, cfg config.Breaker) {
		g := mustNew(t, cfg)
		said := time.Now()
		force(t, g, "", true, breaker.Open, time.Minute)
		force(t, g, "vip", false, breaker.Closed, 0)
		views := g.Views()
		if len(views) != 2 {
			t.Fatalf("%d views", len(views))
		}
		all, vip := views[0], views[1]
		if all.AppOnly || all.State != breaker.Open || !all.Since.Equal(said) || !all.NextProbe.Equal(said.Add(time.Minute)) ||
			all.Reason() != "forced by op" || all.Refused != 1 {
			t.Errorf("all: %+v", all)
		}
		if vip.App != "vip" || !vip.AppOnly || vip.State != breaker.Closed || !vip.NextProbe.IsZero() || vip.Forced == nil {
			t.Errorf("vip: %+v", vip)
		}
		time.Sleep(time.Minute)
		if views := g.Views(); len(views) > 0 && !views[0].AppOnly && views[0].Forced != nil {
			t.Errorf("past its time: %+v", views)
		}
	})
}

func TestForcedIsBounded(t *testing.T) {
	g := mustNew(t, adaptiveConfig())
	f := &breaker.Forced{State: breaker.Open}
	for i := range breaker.MaxForced {
		if err := g.Force(strconv.Itoa(i), false, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Force("one more", false, f); !errors.Is(err, breaker.ErrTooManyForced) {
		t.Errorf("Force: %v", err)
	}
	if err := g.Force("0", false, &breaker.Forced{State: breaker.Closed}); err != nil {
		t.Errorf("Force of one that is there: %v", err)
	}
	if err := g.Force("", true, &breaker.Forced{State: breaker.HalfOpen}); err == nil {
		t.Error("forced half-open")
	}
}

// Each change is told once, also those that nobody asked for.
func TestChangesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		g, err := breaker.New(thresholdConfig(nil), breaker.Options{OnChange: func(c breaker.Change) {
			word := c.To.String()
			switch {
			case c.Forced != nil:
				word = "forced " + word
			case c.Lifted:
				word = "lifted"
			case c.To == breaker.Open:
				word += ": " + c.Opening.String()
			}
			told = append(told, word+" "+c.App)
		}})
		if err != nil {
			t.Fatal(err)
		}
		callAs(t, g, "a", breaker.Success)
		time.Sleep(time.Second)
		for range 7 {
			callAs(t, g, "a", breaker.Failure)
		}
		time.Sleep(5 * time.Second)
		callAs(t, g, "a", breaker.Failure)
		time.Sleep(5 * time.Second)
		callAs(t, g, "a", breaker.Success)
		for range 7 {
			callAs(t, g, "b", breaker.Exhausted)
		}
		force(t, g, "c", false, breaker.Open, time.Second)
		time.Sleep(time.Second)
		callAs(t, g, "c", breaker.Success)
		want := []string{
			"open: 5 of 6 calls failed within 1s, the last one with SICK ",
			"half_open ", "open: 5 of 6 calls failed within 1s, the last one with SICK ",
			"half_open ", "closed ",
			"open: 5 of 5 calls failed within 0s, the last one with SICK b",
			"forced open c", "lifted c",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told\n%q, want\n%q", told, want)
		}
	})
}
