package gateway

import "testing"

// What a large message left is not lent for small ones, whose calls could hold
// it for long; and what is lent has the length that was asked for.
func TestBuffersOfTwoSizes(t *testing.T) {
	t.Parallel()
	b := new(buffers)
	for range 100 { // what a sync.Pool gives back is chance
		large := make([]byte, 3, maxKept)
		b.Put(&large)
		for _, n := range []int{-1, 0, 1, maxAhead} {
			if p := b.room(n); cap(*p) > maxAhead || len(*p) != 0 {
				t.Fatalf("for %d bytes: %d of %d", n, len(*p), cap(*p))
			}
		}
		if p := b.Get(minPooled); cap(*p) > maxAhead || len(*p) != minPooled {
			t.Fatalf("%d of %d", len(*p), cap(*p))
		}
		if p := b.room(maxAhead + 1); cap(*p) < maxAhead || len(*p) != 0 {
			t.Fatalf("for a large message: %d of %d", len(*p), cap(*p))
		}
		if p := b.Get(2 * maxKept); len(*p) != 2*maxKept {
			t.Fatalf("%d bytes", len(*p))
		}
	}
	huge := make([]byte, maxKept+1)
	b.Put(&huge)
	if p := b.room(maxKept); cap(*p) > maxKept {
		t.Errorf("a slice of %d bytes was kept", cap(*p))
	}
}
