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
	good    *simplelru.LRU[K, *entry[K, V]]
	bad     *simplelru.LRU[K, miss]
	flights map[K]*flight[V]
	agenda  agenda[K, V] // of entries in good
	n       counts

	_ [64]byte // keeps neighbours off this shard's cache line
}

func (s *shard[K, V]) init(entries, negative int) (err error) {
	forget := func(_ K, e *entry[K, V]) { s.agenda.drop(e) }
	if s.good, err = simplelru.NewLRU(entries, forget); err != nil {
		return err
	}
	if s.bad, err = simplelru.NewLRU[K, miss](negative, nil); err != nil {
		return err
	}
	s.flights = make(map[K]*flight[V])
	return nil
}

// entry is a remembered value. Instants are nanoseconds since the cache's start.
type entry[K comparable, V any] struct {
	key        K
	value      V
	loaded     int64 // when the look-up began
	due        int64 // from when on it is looked up again beside its use
	freshUntil int64
	staleUntil int64
	used       int64  // when a caller last got it
	epoch      uint64 // in which the look-up began
	retry      retry

	at    int64 // when Run sees to it
	index int   // in the agenda; -1: Run leaves it alone
}

// settled tells whether e is all that a caller needs: nothing is to be looked up
// for it, not even beside its use.
func (e *entry[K, V]) settled(now int64, epoch uint64) bool { return now < e.due && e.epoch == epoch }

// retry is the memory of a failing loader: no look-up before at, and then the
// next wait is twice as long. The zero retry is that of a loader that works, and
// so is one of before the last [Cache.Recovered].
type retry struct {
	at   int64
	wait time.Duration
	era  uint64
}

// miss is a remembered error: [ErrNotFound], or a failure.
type miss struct {
	err   error
	until int64
	epoch uint64
	retry retry // of a failure alone
}

func (m miss) failure() bool { return m.retry.wait > 0 }

// counts are the shard's share of the metrics: plain numbers under its lock, so
// that counting a hit costs no shared cache line.
type counts struct {
	hits, misses, stale, negative, failing    uint64
	loads                                     [numOutcomes]uint64
	evictions, negativeEvictions, invalidated uint64
}
