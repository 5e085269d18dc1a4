package credcache

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// shard is one part of the key space. mu guards everything in it and is held
// for a few map operations at most.
type shard[K comparable, V any] struct {
	mu      sync.Mutex
	good    *simplelru.LRU[K, *entry[V]]
	bad     *simplelru.LRU[K, miss]
	flights map[K]*flight[V]
	n       counts

	_ [64]byte // keeps neighbours off this shard's cache line
}

func (s *shard[K, V]) init(entries, negative int) (err error) {
	if s.good, err = simplelru.NewLRU[K, *entry[V]](entries, nil); err != nil {
		return err
	}
	if s.bad, err = simplelru.NewLRU[K, miss](negative, nil); err != nil {
		return err
	}
	s.flights = make(map[K]*flight[V])
	return nil
}

// entry is a remembered value. Instants are nanoseconds since the cache's start.
type entry[V any] struct {
	value      V
	loaded     int64 // when the look-up began
	freshUntil int64
	staleUntil int64
	epoch      uint64 // in which the look-up began
	retry      retry
}

func (e *entry[V]) fresh(now int64, epoch uint64) bool {
	return now < e.freshUntil && e.epoch == epoch
}

// retry is the memory of a failing loader: no look-up before at, and then the
// next wait is twice as long. The zero retry is that of a loader that works.
type retry struct {
	at   int64
	wait time.Duration
}

// miss is a remembered error: [ErrNotFound], or a failure if its retry is set.
type miss struct {
	err   error
	until int64
	epoch uint64
	retry retry
}

func (m miss) valid(now int64, epoch uint64) bool {
	if m.retry.wait > 0 {
		return now < m.retry.at
	}
	return now < m.until && m.epoch == epoch
}

// counts are the shard's share of the metrics: plain numbers under its lock, so
// that counting a hit costs no shared cache line.
type counts struct {
	hits, misses, stale, negative, failing    uint64
	loads                                     [numOutcomes]uint64
	evictions, negativeEvictions, invalidated uint64
}
