package gateway

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/limits"
)

// As long as there is time, a refusal does not wait.
func TestRefusalAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := new(refusalLine)
		for range 3 {
			begin := time.Now()
			if err := l.wait(t.Context()); err != nil || time.Since(begin) != 0 {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		}
		synctest.Wait()
		if l.telling {
			t.Error("nobody waits, and the line is still told")
		}
	})
}

// The newest is told first; who has left is not told, and holds no place.
func TestRefusalsNewestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &refusalLine{telling: true} // by nobody yet
		told, left := make(chan int, 4), make(chan error, 1)
		leaving, leave := context.WithCancel(t.Context())
		for i := range 4 {
			go func() {
				if i == 2 {
					left <- l.wait(leaving)
					return
				}
				if err := l.wait(t.Context()); err != nil {
					t.Error(err)
				}
				told <- i
			}()
			synctest.Wait()
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) || l.waiting.Len() != 3 {
			t.Fatalf("who left got %v; %d wait", err, l.waiting.Len())
		}
		var order []int
		for l.waiting.Len() > 0 {
			l.tellNext()
			order = append(order, <-told)
		}
		if !slices.Equal(order, []int{3, 1, 0}) {
			t.Errorf("told in the order %v", order)
		}
	})
}

// The line is bounded: beyond that a refusal does not wait.
func TestRefusalLineIsBounded(t *testing.T) {
	t.Parallel()
	l := &refusalLine{telling: true}
	for range maxRefusing {
		l.waiting.PushFront(make(chan struct{}))
	}
	if err := l.wait(t.Context()); err != nil || l.waiting.Len() != maxRefusing {
		t.Errorf("%v; %d wait", err, l.waiting.Len())
	}
}

// Calls that are shed for want of processors are refused, and their places are
// free while they wait for it; a call whose caller has given up is not begun.
func TestShedForDelay(t *testing.T) {
	t.Parallel()
	g, _ := sheddingGateway(1000)
	g.shedder.overload = limits.NewOverload(g.cfg.Overload)
	r, served := testRoute(), 0
	h := g.pipeline(r, func(context.Context, *Call) error { served++; return nil })
	refused := 0
	for range 50 { // ticks
		for range 100 {
			switch f := describe(h(t.Context(), callOf(r, "acme"))); {
			case f == nil:
			case f.Reason == "OVERLOADED":
				refused++
			default:
				t.Fatal(f)
			}
		}
		g.shedder.overload.Adjust(limits.Load{Elapsed: limits.Tick, CPU: 1, QueueDelay: time.Second})
	}
	if n := g.Overload().InFlight; refused == 0 || n != 0 {
		t.Errorf("%d refused, %d in flight", refused, n)
	}
	before := served
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 100 {
		if f := describe(h(gone, callOf(r, "acme"))); f == nil || f.Reason != "CANCELLED" {
			t.Fatalf("who has given up got %v", f)
		}
	}
	if served != before {
		t.Error("calls were begun whose callers have given up")
	}
}
