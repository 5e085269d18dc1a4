package limits

import "hash/maphash"

// Tenant is whose call it is, as far as shares go: an app's cell, and its weight.
// Apps are told apart by a hash, so that what is kept of them is bounded: two have
// the same cell, and one share, with a chance of 1 in 2048. The zero Tenant is
// who has no app, with a weight of 1.
type Tenant struct {
	cell  uint16
	extra uint16 // the weight, less 1
}

// cellCount is how many cells there are: a bound for all that is kept by app.
const cellCount = 2048

// Cells is how many there are of what is kept by [Tenant.Cell].
const Cells = cellCount

// Cell is the tenant's, below Cells.
func (t Tenant) Cell() int { return int(t.cell) }

// MaxWeight is the largest weight: what is above it counts as that.
const MaxWeight = 1000

// Weight is how much the tenant gets where there is not enough for all: against
// one of weight 1, so many times as much.
func (t Tenant) Weight() int { return int(t.extra) + 1 }

// tenants gives apps their cells, in a way that nobody outside can know.
type tenants struct{ seed maphash.Seed }

// of is an app's Tenant; a weight below 1 is 1.
func (t tenants) of(app string, weight int) Tenant {
	return Tenant{cell: uint16(maphash.String(t.seed, app) % cellCount), extra: uint16(min(max(weight, 1), MaxWeight) - 1)}
}

// shareOfFree is how many times the free places a tenant of weight 1 may have by
// calls of a priority: a dynamic threshold, as switches have it for queues in a
// shared memory (Choudhury and Hahne, "Dynamic Queue Length Thresholds for
// Shared-Memory Packet Switches", 1998), and for others that many times their
// weight. Of normal priority one app alone can have 8/9 of the places, two of the
// same weight 8/17 each, and there are always some for another. Nothing is to be
// tuned or remembered, and a call costs one comparison. An app that fills its share
// by calls of one priority still has room for higher ones.
func shareOfFree(p Priority) int64 { return [priorities]int64{4, 8, 64, 128}[p] }

// mayHave is how many of what there is a tenant may have while so many are free.
// Whoever has none may always have one.
func (t Tenant) mayHave(p Priority, free int64) int64 {
	return 1 + shareOfFree(p)*int64(t.Weight())*max(free, 0)
}

// Key is the tenant as a number, to be kept; [TenantOf] gives it back.
func (t Tenant) Key() uint32 { return uint32(t.extra)<<16 | uint32(t.cell) }

// TenantOf is the tenant with that key.
func TenantOf(key uint32) Tenant {
	return Tenant{cell: uint16(key % cellCount), extra: uint16(key >> 16)}
}
