package rpcproxy

import (
	"hash/maphash"
	"maps"
	"sync/atomic"
)

// tableShards bounds what one insertion copies: a shard of the table.
const tableShards = 64

// table finds entries by key. Reading takes no lock and allocates nothing: each
// shard is an immutable map, which writers replace by a changed copy. Writers
// hold the pool's lock. (sync.Map would do, but boxes the key on each Load.)
type table struct {
	seed   maphash.Seed
	shards [tableShards]atomic.Pointer[map[connKey]*entry]
}

func newTable() *table { return &table{seed: maphash.MakeSeed()} }

func (t *table) shard(key connKey) *atomic.Pointer[map[connKey]*entry] {
	return &t.shards[maphash.Comparable(t.seed, key)%tableShards]
}

// get returns nil if there is none.
func (t *table) get(key connKey) *entry {
	if m := t.shard(key).Load(); m != nil {
		return (*m)[key]
	}
	return nil
}

func (t *table) putLocked(e *entry) {
	shard := t.shard(e.key)
	changed := map[connKey]*entry{}
	if m := shard.Load(); m != nil {
		changed = maps.Clone(*m)
	}
	changed[e.key] = e
	shard.Store(&changed)
}

// removeLocked takes e out, unless another has taken its place.
func (t *table) removeLocked(e *entry) {
	shard := t.shard(e.key)
	m := shard.Load()
	if m == nil || (*m)[e.key] != e {
		return
	}
	changed := maps.Clone(*m)
	delete(changed, e.key)
	shard.Store(&changed)
}
