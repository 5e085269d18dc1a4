package fleet

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// dialing notes who was started, in order.
type dialing struct {
	dials   *Dials
	started []string
}

func (d *dialing) begin(address, app, name string) *Dial {
	return d.dials.Begin(address, app, false, func() { d.started = append(d.started, name) })
}

func (d *dialing) want(t *testing.T, names ...string) {
	t.Helper()
	if !slices.Equal(d.started, names) {
		t.Errorf("started %v, want %v", d.started, names)
	}
	d.started = nil
}

func (d *dialing) wantCounts(t *testing.T, waiting, active int) {
	t.Helper()
	if w, a := d.dials.Counts(); w != waiting || a != active {
		t.Errorf("%d wait and %d are active, want %d and %d", w, a, waiting, active)
	}
}

func TestDialsAreBounded(t *testing.T) {
	d := dialing{dials: newDials(2)}
	first, second, third := d.begin("a", "x", "1"), d.begin("a", "x", "2"), d.begin("a", "x", "3")
	d.want(t, "1", "2")
	d.wantCounts(t, 1, 2)
	if first.Waiting() || !third.Waiting() {
		t.Error("the third alone waits")
	}
	first.End()
	first.End()
	d.want(t, "3")
	second.End()
	third.End()
	d.wantCounts(t, 0, 0)
	if len(d.dials.to) != 0 {
		t.Errorf("%d addresses are kept", len(d.dials.to))
	}
}

// An endpoint that does not answer holds up no other.
func TestDialsAreBoundedByAddress(t *testing.T) {
	d := dialing{dials: newDials(1)}
	all := []*Dial{d.begin("dead", "x", "1"), d.begin("dead", "x", "2"), d.begin("live", "x", "3")}
	d.want(t, "1", "3")
	for _, dial := range all {
		dial.End()
	}
	d.wantCounts(t, 0, 0)
}

func TestDialsWithoutBound(t *testing.T) {
	d := dialing{dials: newDials(0)}
	for i := range 100 {
		defer d.begin("a", "x", fmt.Sprint(i)).End()
	}
	d.wantCounts(t, 0, 100)
}

// Apps take turns: one with many does not hold up another's first.
func TestDialsAreFair(t *testing.T) {
	d := dialing{dials: newDials(1)}
	held := d.begin("a", "many", "held")
	var waiting []*Dial
	for i := range 5 {
		waiting = append(waiting, d.begin("a", "many", fmt.Sprint("many", i)))
	}
	waiting = append(waiting, d.begin("a", "one", "one"), d.begin("a", "two", "two0"), d.begin("a", "two", "two1"))
	d.want(t, "held")
	held.End()
	for range waiting {
		for _, dial := range waiting {
			if !dial.Waiting() {
				dial.End()
			}
		}
	}
	d.want(t, "many0", "one", "two0", "many1", "two1", "many2", "many3", "many4")
	d.wantCounts(t, 0, 0)
}

// What a call waits for goes before what none does.
func TestDialsThatHurry(t *testing.T) {
	d := dialing{dials: newDials(1)}
	held := d.begin("a", "x", "held")
	slow, fast := d.begin("a", "x", "slow"), d.begin("a", "y", "fast")
	urgent := d.dials.Begin("a", "z", true, func() { d.started = append(d.started, "urgent") })
	fast.Hurry()
	fast.Hurry()
	held.Hurry()
	held.End()
	urgent.End()
	fast.End()
	slow.End()
	slow.Hurry()
	d.want(t, "held", "urgent", "fast", "slow")
	d.wantCounts(t, 0, 0)
}

// Who gives up while it waits is not started, and takes nobody's place.
func TestDialsGivenUp(t *testing.T) {
	d := dialing{dials: newDials(1)}
	held, gone, next := d.begin("a", "x", "held"), d.begin("a", "x", "gone"), d.begin("a", "x", "next")
	gone.End()
	d.wantCounts(t, 1, 1)
	held.End()
	next.End()
	d.want(t, "held", "next")
	d.wantCounts(t, 0, 0)
}

// However they come and go at once, none is lost and the bound holds.
func TestDialsRace(t *testing.T) {
	const limit = 3
	dials := newDials(limit)
	var mu sync.Mutex
	active := map[string]int{}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				address := fmt.Sprint(i % 3)
				started := make(chan struct{})
				dial := dials.Begin(address, fmt.Sprint(g), i%2 == 0, func() {
					mu.Lock()
					defer mu.Unlock()
					active[address]++
					if active[address] > limit {
						t.Errorf("%d at once to one address", active[address])
					}
					close(started)
				})
				if i%7 == 0 {
					dial.Hurry()
				}
				<-started
				mu.Lock()
				active[address]--
				mu.Unlock()
				dial.End()
			}
		})
	}
	wg.Wait()
	if waiting, active := dials.Counts(); waiting+active != 0 || len(dials.to) != 0 {
		t.Errorf("%d wait, %d are active", waiting, active)
	}
}
