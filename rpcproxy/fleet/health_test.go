package fleet

import (
	"slices"
	"testing"
)

func TestUnhealthyGetsNoCalls(t *testing.T) {
	t.Parallel()
	d := newField(t, 4, nil)
	a := d.endpoints[0]
	for _, step := range []struct {
		says  Health
		calls int // of 12
	}{{Serving, 3}, {NotServing, 0}, {Unknown, 3}, {NotServing, 0}, {Serving, 3}} {
		a.SetHealth(step.says)
		if served := d.served(12); served["a"] != step.calls {
			t.Errorf("an endpoint that is %s got %d calls of 12, want %d", step.says, served["a"], step.calls)
		}
	}
	if n, m := len(d.told(Unhealthy)), len(d.told(Recovered)); n != 2 || m != 2 {
		t.Errorf("told %d times that it is unhealthy, %d times that it recovered", n, m)
	}
}

// An endpoint that says that it does not serve is not tried out.
func TestUnhealthyIsNotTriedOut(t *testing.T) {
	t.Parallel()
	d := newField(t, 4, nil)
	d.call(0, 5, Failure)
	d.endpoints[0].SetHealth(NotServing)
	d.pass(d.cfg.Ejection.MaxTime)
	if n := d.served(12)["a"]; n != 0 {
		t.Errorf("it got %d calls", n)
	}
	d.endpoints[0].SetHealth(Serving)
	if n := d.served(1)["a"]; n != 1 {
		t.Error("it is not tried out when it serves again")
	}
	d.wantEjected("after the trial", "")
}

// When most or all say that they do not serve, calls go to all of them.
func TestPanicUsesUnhealthyOnes(t *testing.T) {
	t.Parallel()
	d := newField(t, 10, nil)
	for i := range 7 {
		d.endpoints[i].SetHealth(NotServing)
	}
	if d.panicking() || len(d.served(30)) != 3 {
		t.Error("three of ten are enough by default")
	}
	d.endpoints[7].SetHealth(NotServing)
	if !d.panicking() || len(d.served(30)) != 10 {
		t.Error("with two of ten all are to be used")
	}
	if events := d.told(PanicBegan); len(events) != 1 || events[0].Usable != 2 || events[0].Endpoints != 10 {
		t.Errorf("told %+v", events)
	}
	for i := range 10 {
		d.endpoints[i].SetHealth(NotServing)
	}
	if len(d.served(30)) != 10 {
		t.Error("with none all are to be used")
	}
	d.endpoints[0].SetHealth(Serving)
	d.endpoints[1].SetHealth(Serving)
	d.endpoints[2].SetHealth(Serving)
	if d.panicking() || len(d.served(30)) != 3 {
		t.Error("three are enough again")
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	var turns Turns
	var began []int
	join := func(n int) *Turn {
		return turns.Join(func() func() {
			began = append(began, n)
			return func() { began = append(began, -n) }
		})
	}
	first, second := join(1), join(2)
	if !slices.Equal(began, []int{1}) {
		t.Errorf("it is the turn of %v", began)
	}
	second.Leave()
	third := join(3)
	first.Leave()
	if !slices.Equal(began, []int{1, -1, 3}) {
		t.Errorf("after the first left it was the turn of %v", began)
	}
	first.Leave() // again: nothing
	third.Leave()
	join(4).Leave()
	if !slices.Equal(began, []int{1, -1, 3, -3, 4, -4}) || turns.holder != nil || len(turns.waiting) != 0 {
		t.Errorf("at the end it was the turn of %v", began)
	}
}
