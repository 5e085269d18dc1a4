package limits_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rpcgate/rpcgate/limits"
)

func TestBoundsAreKeptByKey(t *testing.T) {
	t.Parallel()
	b := limits.NewBounds()
	acme := limits.BoundKey{App: "acme"}
	var places []*limits.Place
	for range 3 {
		p, ok := b.Enter(acme, 3)
		if !ok {
			t.Fatal("refused within the limit")
		}
		places = append(places, p)
	}
	if _, ok := b.Enter(acme, 3); ok {
		t.Error("a fourth call is let in")
	}
	for _, other := range []limits.BoundKey{
		{App: "b"}, {App: "acme", Token: "t"}, {App: "acme", Method: "/a.B/C"}, {App: "acme", Kind: limits.BoundStreams},
		{App: "acme", Token: "/a.B/C"}, {Token: "acme"},
	} {
		p, ok := b.Enter(other, 1)
		if !ok {
			t.Errorf("%v has to pay for %v", other, acme)
		}
		p.Leave()
	}
	// A limit that is raised or lowered counts for the next call.
	p, ok := b.Enter(acme, 4)
	if !ok {
		t.Error("a higher limit is not in force at once")
	}
	p.Leave()
	places[0].Leave()
	if _, ok := b.Enter(acme, 2); ok {
		t.Error("a lower limit is not in force at once")
	}
	if _, ok := b.Enter(acme, 3); !ok {
		t.Error("a place that was left is not free")
	}
	if p, ok := b.Enter(acme, 0); !ok || p != nil {
		t.Error("no limit is one")
	}
}

func TestBoundsHoldUnderChurn(t *testing.T) {
	t.Parallel()
	b := limits.NewBounds()
	const limit = 4
	var inFlight, entered atomic.Int64
	var working sync.WaitGroup
	for g := range 8 {
		working.Go(func() {
			for i := range 60_000 { // other keys fill the table, so that idle ones are swept
				if p, ok := b.Enter(limits.BoundKey{App: strconv.Itoa(g), Token: strconv.Itoa(i)}, 1); ok {
					p.Leave()
				}
				p, ok := b.Enter(limits.BoundKey{App: "acme"}, limit)
				if !ok {
					continue
				}
				entered.Add(1)
				if n := inFlight.Add(1); n > limit {
					t.Errorf("%d calls in flight, with a limit of %d", n, limit)
				}
				inFlight.Add(-1)
				p.Leave()
			}
		})
	}
	working.Wait()
	if entered.Load() == 0 {
		t.Error("nobody got in")
	}
}

func TestBoundsRefuseWhatTheyCannotCount(t *testing.T) {
	t.Parallel()
	b := limits.NewBounds()
	var held []*limits.Place
	refused := false
	for i := 0; i < 200_000 && !refused; i++ {
		p, ok := b.Enter(limits.BoundKey{App: strconv.Itoa(i)}, 1)
		held = append(held, p)
		refused = !ok
	}
	if !refused || len(held) < 1<<15 {
		t.Errorf("refused: %v, with %d places held", refused, len(held))
	}
	for _, p := range held {
		p.Leave()
	}
	for i := range 1000 {
		if _, ok := b.Enter(limits.BoundKey{App: "later" + strconv.Itoa(i)}, 1); !ok {
			t.Fatal("there is no room though nothing is in flight")
		}
	}
}

func TestBoundsAllocateNothing(t *testing.T) {
	b := limits.NewBounds()
	key := limits.BoundKey{App: "acme", Token: "t"}
	p, _ := b.Enter(key, 10)
	p.Leave()
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := b.Enter(key, 10)
		p.Leave()
	}); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkBounds(b *testing.B) {
	bounds := limits.NewBounds()
	key := limits.BoundKey{App: "acme"}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, _ := bounds.Enter(key, 1000)
			p.Leave()
		}
	})
}
