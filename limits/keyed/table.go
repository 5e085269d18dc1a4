// Package keyed is a bounded hash table that is read without a lock: for values
// that calls of many processors look up by key and change by atomics, where they
// lie. A value keeps its address as long as it is in the table.
package keyed

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	shards  = 64 // each with a lock of its own for changes
	buckets = 1 << 8
)

// Table has values of one type by keys of another. A zero V is one that is new.
// Its methods may be called by any number of goroutines.
type Table[K comparable, V any] struct {
	seed   maphash.Seed
	most   int // of a shard
	shards [shards]shard[K, V]
}

type shard[K comparable, V any] struct {
	heads [buckets]atomic.Pointer[node[K, V]]

	mu sync.Mutex // guards n, and changes of the links
	n  int
}

// node does not change but for its value, whose user has atomics, and the link to
// the next one.
type node[K comparable, V any] struct {
	next  atomic.Pointer[node[K, V]]
	key   K
	value V
}

// New makes a table for at most about most keys.
func New[K comparable, V any](most int) *Table[K, V] {
	return &Table[K, V]{seed: maphash.MakeSeed(), most: (most + shards - 1) / shards}
}

// Get gives the value of a key; nil: there is none. It allocates nothing.
func (t *Table[K, V]) Get(key K) *V {
	hash := maphash.Comparable(t.seed, key)
	return t.shards[hash%shards].find(hash, key)
}

// Put gives the value of a key, which is new if there was none; nil: there is no
// room. Key is kept.
func (t *Table[K, V]) Put(key K) *V {
	hash := maphash.Comparable(t.seed, key)
	s := &t.shards[hash%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.find(hash, key); v != nil {
		return v
	}
	if s.n >= t.most {
		return nil
	}
	s.n++
	n := &node[K, V]{key: key}
	head := s.head(hash)
	n.next.Store(head.Load())
	head.Store(n)
	return &n.value
}

// Sweep asks of each value whether it stays. Who found a value just before it was
// taken out may still use it: that the value is out must show in itself, or not
// matter. keep is called under a lock, and must not use the table.
func (t *Table[K, V]) Sweep(keep func(key K, value *V) bool) {
	for i := range t.shards {
		t.shards[i].sweep(keep)
	}
}

// Len is how many keys there are.
func (t *Table[K, V]) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.n
		s.mu.Unlock()
	}
	return n
}

func (s *shard[K, V]) head(hash uint64) *atomic.Pointer[node[K, V]] {
	return &s.heads[hash/shards%buckets]
}

func (s *shard[K, V]) find(hash uint64, key K) *V {
	for n := s.head(hash).Load(); n != nil; n = n.next.Load() {
		if n.key == key {
			return &n.value
		}
	}
	return nil
}

func (s *shard[K, V]) sweep(keep func(key K, value *V) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return
	}
	for b := range s.heads {
		link := &s.heads[b]
		for n := link.Load(); n != nil; n = n.next.Load() {
			if keep(n.key, &n.value) {
				link = &n.next
				continue
			}
			link.Store(n.next.Load()) // its own link stays, for those who are on it
			s.n--
		}
	}
}
