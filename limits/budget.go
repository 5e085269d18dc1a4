package limits

import (
	"math"
	"sync/atomic"
)

// Budget bounds how many bytes are held at once. What a tenant may hold goes by its
// weight and by how many are free, as with calls (see [Tenant]); and a little it may
// always hold, so that what others hold, be it too much, keeps nobody out who needs
// little. It is safe for use by many goroutines.
type Budget struct {
	most, little int64
	total        atomic.Int64   // of own, as add counts it
	own          []atomic.Int64 // by the tenant's cell; nil: there is no bound
}

// littlePart is the part of a Budget that each tenant may hold whatever there is.
const littlePart = 256

// NewBudget makes a Budget of so many bytes; 0: without a bound.
func NewBudget(most int64) *Budget {
	b := &Budget{most: most, little: most / littlePart}
	if most > 0 {
		b.own = make([]atomic.Int64, cellCount)
	}
	return b
}

// Take takes n bytes for a tenant, which Add gives back. Anything but Admitted is a
// refusal.
func (b *Budget) Take(t Tenant, n int64) Verdict {
	if b.own == nil || n <= 0 {
		return Admitted
	}
	own, total := b.add(t, n)
	free := b.most - total
	if own <= b.little || free >= 0 && own <= min(shareOfBytes(t, free), b.alone(t)) {
		return Admitted
	}
	b.Add(t, -n)
	return TooMuch
}

// alone is what a tenant may hold of a Budget that nobody else uses.
func (b *Budget) alone(t Tenant) int64 { return b.most - b.most/(shareOfBytes(t, 1)+1) }

// shareOfBytes is how many of the bytes a tenant may hold while so many are free.
func shareOfBytes(t Tenant, free int64) int64 {
	most := shareOfFree(Normal) * int64(t.Weight())
	if free > math.MaxInt64/most {
		return math.MaxInt64
	}
	return most * free
}

// Add adds what is there anyway to what a tenant holds, or, below 0, takes it off.
func (b *Budget) Add(t Tenant, n int64) {
	if b.own != nil && n != 0 {
		b.add(t, n)
	}
}

// add counts a cell with no more than what one tenant of weight 1 could have taken
// of an empty Budget: what it holds beyond that, as answers were larger than was
// thought, is not held against others. That must not go by the tenant's weight: with
// another one in the meantime, less would be given back than was counted, or more.
func (b *Budget) add(t Tenant, n int64) (own, total int64) {
	most := b.alone(Tenant{})
	own = b.own[t.cell].Add(n)
	return own, b.total.Add(min(own, most) - min(own-n, most))
}

// Held is how many bytes are held in all.
func (b *Budget) Held() int64 { return b.total.Load() }
