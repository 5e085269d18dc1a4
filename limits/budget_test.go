package limits

import (
	"math/rand/v2"
	"sync"
	"testing"
)

const mib = 1 << 20

// fillBudget takes pieces of n bytes until one is refused.
func fillBudget(b *Budget, t Tenant, n int64) (held int64) {
	for b.Take(t, n) == Admitted {
		held += n
	}
	return held
}

func TestBudgetIsSharedByWeight(t *testing.T) {
	t.Parallel()
	b := NewBudget(64 * mib)
	a, heavy, late := Tenant{cell: 1}, Tenant{cell: 2, extra: 2}, Tenant{cell: 3}
	if got := fillBudget(b, a, mib/4); got < 55*mib || got > 57*mib {
		t.Errorf("alone a tenant holds %d MiB of 64", got/mib)
	}
	if got := fillBudget(b, late, mib/4); got < 4*mib {
		t.Errorf("beside it another finds %d KiB", got>>10)
	}
	if v := b.Take(a, mib/4); v != TooMuch {
		t.Errorf("and the first is told %v when it wants still more", v)
	}
	b = NewBudget(64 * mib)
	held := map[Tenant]int64{}
	for range 1000 { // both want all that they can get
		for _, x := range []Tenant{a, heavy} {
			if b.Take(x, mib/16) == Admitted {
				held[x] += mib / 16
			}
			if held[x] > 0 && rand.IntN(2) == 0 {
				b.Add(x, -mib/16)
				held[x] -= mib / 16
			}
		}
	}
	held[a] += fillBudget(b, a, mib/64)
	held[heavy] += fillBudget(b, heavy, mib/64)
	if b.Held() > 64*mib {
		t.Errorf("%d bytes are held", b.Held())
	}
}

// Whoever holds too much, as what came was larger than was thought, keeps nobody
// else out; and a little is always to be had.
func TestBudgetBeyondItsBound(t *testing.T) {
	t.Parallel()
	b := NewBudget(64 * mib)
	b.Add(Tenant{cell: 1}, 500*mib)
	if v := b.Take(Tenant{cell: 2}, mib); v != Admitted {
		t.Errorf("another is told %v", v)
	}
	b.Add(Tenant{cell: 3}, 500*mib)
	if v := b.Take(Tenant{cell: 4}, mib/4); v != Admitted {
		t.Errorf("who needs little is told %v", v)
	}
	if v := b.Take(Tenant{cell: 5}, mib); v != TooMuch {
		t.Errorf("who needs more is told %v", v)
	}
	for _, x := range []uint16{1, 3} {
		b.Add(Tenant{cell: x}, -500*mib)
	}
	b.Add(Tenant{cell: 2}, -mib)
	b.Add(Tenant{cell: 4}, -mib/4)
	if b.Held() != 0 {
		t.Errorf("%d bytes are left", b.Held())
	}
}

// An app's weight may change while it holds something, and two apps may have one
// cell: what is counted comes back all the same.
func TestBudgetOfSeveralWeights(t *testing.T) {
	t.Parallel()
	b := NewBudget(64 * mib)
	light, heavy := Tenant{cell: 1}, Tenant{cell: 1, extra: 9}
	b.Add(light, 60*mib)
	b.Add(heavy, 4*mib)
	b.Add(light, -60*mib)
	b.Add(heavy, -4*mib)
	if b.Held() != 0 {
		t.Errorf("%d bytes are left", b.Held())
	}
	if got := fillBudget(b, heavy, mib/4); got > 64*mib {
		t.Errorf("alone a tenant of great weight holds %d MiB of 64", got/mib)
	}
}

func TestNoBudget(t *testing.T) {
	t.Parallel()
	b := NewBudget(0)
	b.Add(Tenant{}, 1<<50)
	if v := b.Take(Tenant{}, 1<<60); v != Admitted || b.Held() != 0 {
		t.Errorf("%v, held %d", v, b.Held())
	}
}

// However it is taken and given back at once, nothing is lost.
func TestBudgetUnderContention(t *testing.T) {
	t.Parallel()
	b := NewBudget(mib)
	var wg sync.WaitGroup
	for i := range uint16(8) {
		wg.Go(func() {
			for n := range int64(5000) {
				if b.Take(Tenant{cell: i % 3}, n) == Admitted {
					b.Add(Tenant{cell: i % 3}, -n)
				}
			}
		})
	}
	wg.Wait()
	if b.Held() != 0 {
		t.Errorf("%d bytes are left", b.Held())
	}
}
