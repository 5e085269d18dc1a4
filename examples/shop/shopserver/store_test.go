package shopserver

import (
	"strings"
	"testing"
)

func TestWindowIsBounded(t *testing.T) {
	w := newWindow(3, 10, func(s string) int { return len(s) })
	for range 100 {
		w.add("ab")
	}
	if len(w.items) != 3 || w.bytes != 6 || w.first != 98 || w.next != 101 {
		t.Errorf("after many small items: %d items, %d bytes, ids [%d, %d)", len(w.items), w.bytes, w.first, w.next)
	}
	w.add("abcdefgh")
	if len(w.items) != 2 || w.bytes != 10 {
		t.Errorf("after a large item: %d items, %d bytes", len(w.items), w.bytes)
	}
	w.add(strings.Repeat("x", 99))
	if _, ok := w.get(102); len(w.items) != 1 || !ok {
		t.Errorf("an item above the bound must stay alone: %d items", len(w.items))
	}
	if _, ok := w.get(101); ok {
		t.Error("a dropped item is still found")
	}
}

func TestOrdersFrom(t *testing.T) {
	s := newStore(2, 1<<20)
	u := s.addUser("ada")
	seen := s.ordersFrom(u.GetId(), 0)
	if len(seen.orders) != 0 || seen.missed {
		t.Fatalf("empty store: %+v", seen)
	}
	for _, product := range []string{"a", "b", "c"} {
		s.addOrder(u.GetId(), product)
	}
	select {
	case <-seen.changed:
	default:
		t.Error("the change was not announced")
	}
	if p := s.ordersFrom(u.GetId(), seen.next); !p.missed {
		t.Error("a dropped order was not noticed")
	}
	if p := s.ordersFrom(u.GetId(), 0); p.missed || len(p.orders) != 2 {
		t.Errorf("a new watcher: %+v", p)
	}
}
