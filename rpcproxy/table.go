package rpcproxy

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// tableShards bounds what is moved at once when the table grows: a shard of it.
const tableShards = 64

// table finds entries by key. Reading takes no lock and allocates nothing;
// writers hold the pool's lock.
//
// Each shard is a hash table with open addressing (linear probing). A reader
// that meets a write may miss an entry that is there, and then looks again under
// the lock, as whoever misses does; it is never given another's, since the whole
// key is compared. sync.Map would box the key on each Load; an immutable map for
// each shard, replaced by a changed copy, makes filling the table take quadratic
// time.
type table struct {
	seed   maphash.Seed
	shards [tableShards]shard
	// Stands where an entry was, so that searches go on behind it. It is only
	// compared with.
	removed entry
}

type shard struct {
	slots atomic.Pointer[[]slot] // a power of two of them, or nil
	live  int                    // entries
	taken int                    // slots that were ever used: entries, and what was removed
}

// slot holds an entry and its hash; table.removed, where there was one; nil,
// where there never was, at which a search ends.
type slot struct {
	hash  atomic.Uint64
	entry atomic.Pointer[entry]
}

// minSlots is the least size of a shard that holds anything.
const minSlots = 8

func newTable() *table { return &table{seed: maphash.MakeSeed()} }

// hash mixes the fields that keys differ by: the token's id is known by its
// token. The seed is secret, and a multiplication between the fields keeps them
// apart, so that nobody can choose keys that meet.
func (t *table) hash(key *connKey) uint64 {
	h := maphash.String(t.seed, key.Token)
	h = bits.RotateLeft64(h, 31)*0x9e3779b97f4a7c15 ^ maphash.String(t.seed, key.App)
	if key.Endpoint != "" {
		h = bits.RotateLeft64(h, 31)*0x9e3779b97f4a7c15 ^ maphash.String(t.seed, key.Endpoint)
	}
	return h
}

// shard is chosen by the upper bits, as the slots are by the lower ones.
func (t *table) shard(hash uint64) *shard { return &t.shards[hash>>58%tableShards] }

// get returns nil if there is none.
func (t *table) get(hash uint64, key *connKey) *entry {
	slots := t.shard(hash).slots.Load()
	if slots == nil {
		return nil
	}
	list := *slots
	mask := uint64(len(list) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := list[i].entry.Load()
		if e == nil {
			return nil
		}
		if list[i].hash.Load() == hash && e != &t.removed && e.key == *key {
			return e
		}
	}
}

// putLocked adds an entry whose key has none.
func (t *table) putLocked(e *entry) {
	s := t.shard(e.hash)
	if slots := s.slots.Load(); slots == nil || 4*(s.taken+1) > 3*len(*slots) {
		t.rebuildLocked(s)
	}
	if t.insertLocked(*s.slots.Load(), e) {
		s.taken++
	}
	s.live++
}

// insertLocked tells whether it took a slot that was never used.
func (t *table) insertLocked(list []slot, e *entry) (fresh bool) {
	mask := uint64(len(list) - 1)
	for i := e.hash & mask; ; i = (i + 1) & mask {
		old := list[i].entry.Load()
		if old != nil && old != &t.removed {
			continue
		}
		list[i].hash.Store(e.hash)
		list[i].entry.Store(e)
		return old == nil
	}
}

// rebuildLocked makes room for one more in a shard, and leaves out what was removed. At
// least half of the slots are free after it.
func (t *table) rebuildLocked(s *shard) {
	size := minSlots
	for size < 2*(s.live+1) {
		size *= 2
	}
	list := make([]slot, size)
	if old := s.slots.Load(); old != nil {
		for i := range *old {
			if e := (*old)[i].entry.Load(); e != nil && e != &t.removed {
				t.insertLocked(list, e)
			}
		}
	}
	s.taken = s.live
	s.slots.Store(&list)
}

// removeLocked takes e out, if it is there.
func (t *table) removeLocked(e *entry) {
	s := t.shard(e.hash)
	slots := s.slots.Load()
	if slots == nil {
		return
	}
	list := *slots
	mask := uint64(len(list) - 1)
	for i := e.hash & mask; ; i = (i + 1) & mask {
		switch list[i].entry.Load() {
		case nil:
			return
		case e:
			list[i].entry.Store(&t.removed)
			s.live--
			return
		}
	}
}
