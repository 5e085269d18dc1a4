// Package credcache is a bounded cache of look-ups that many callers share. It
// owns when the loader is asked and what is answered meanwhile; it knows
// nothing of what it caches.
//
// What it promises:
//
//   - One look-up at a time per key, however many callers wait for it. It runs
//     on a context of its own: a caller that gives up fails nobody else.
//   - A hit takes one short lock of its shard, and allocates nothing. No lock
//     is held while a loader runs.
//   - A value is looked up again beside its use before its TTL ends, so that
//     who asks for what is remembered does not wait; see [Cache.Get] and
//     [Cache.Run].
//   - "There is none" ([ErrNotFound]) is remembered for a short while, in a
//     bounded LRU of its own: a flood of made-up keys pushes out no good entry.
//   - While the loader fails, an answer serves past its TTL ([Options].Stale).
//     A failing loader is probed with back-off, not once per call. A failure is
//     never remembered as "there is none", and for a time of its own
//     ([Options].ErrorTTL).
//   - What was invalidated is never answered again, not even by a look-up that
//     had begun before; see [Cache.Invalidate] and [Cache.ExpireAll].
//
// The cache starts no goroutine but one per running look-up, so there is
// nothing to close.
package credcache

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"
)

var (
	// ErrNotFound is a loader's answer "there is none" (it may be wrapped). It
	// is an answer, not a failure: it replaces what was remembered of the key.
	ErrNotFound = errors.New("not found")
	// ErrBusy means that [Options].MaxLoads look-ups are running already and
	// nothing stale could be served.
	ErrBusy = errors.New("too many look-ups at once")
	// ErrLoadTimeout means that a look-up took longer than
	// [Options].LoadTimeout. It is not the caller's own deadline.
	ErrLoadTimeout = errors.New("look-up timed out")
)

// A Loader looks key up where it really is. It returns an error that wraps
// [ErrNotFound] where there is no such key. ctx ends after
// [Options].LoadTimeout, and is not the caller's; it carries the values of the
// caller that came first.
type Loader[K comparable, V any] func(ctx context.Context, key K) (V, error)

// Cache remembers what its loader answered. Its methods may be called by any
// number of goroutines. Values are shared between callers and must not be
// changed by them.
type Cache[K comparable, V any] struct {
	o      Options
	load   Loader[K, V]
	shards []shard[K, V]
	mask   uint64
	seed   maphash.Seed
	slots  chan struct{} // one element per running look-up
	start  time.Time     // what the int64 instants count from, in nanoseconds

	// epoch counts the calls of ExpireAll. An answer whose look-up began in an
	// earlier epoch is due to be looked up again.
	epoch atomic.Uint64
	// era counts the calls of Recovered. Failures of an earlier era are forgotten.
	era atomic.Uint64
	// troubled: the look-up that ended last failed, or took longer than StaleWait.
	troubled atomic.Bool
}

// New makes a cache in front of load. The error names the option that is wrong,
// or is the registerer's.
func New[K comparable, V any](o Options, load Loader[K, V]) (*Cache[K, V], error) {
	if load == nil {
		return nil, errors.New("credcache: no loader")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("credcache: %w", err)
	}
	c := &Cache[K, V]{
		o:      o,
		load:   load,
		shards: make([]shard[K, V], o.shards),
		mask:   uint64(o.shards - 1),
		seed:   maphash.MakeSeed(),
		slots:  make(chan struct{}, o.MaxLoads),
		start:  time.Now(),
	}
	for i := range c.shards {
		if err := c.shards[i].init(share(o.Entries, o.shards, i), share(o.NegativeEntries, o.shards, i)); err != nil {
			return nil, fmt.Errorf("credcache: %w", err)
		}
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(newCollector(c)); err != nil {
			return nil, fmt.Errorf("credcache: register metrics of %q: %w", o.Name, err)
		}
	}
	return c, nil
}

// share splits total over n shards so that the parts sum up to total.
func share(total, n, i int) int {
	part := total / n
	if i < total%n {
		part++
	}
	return part
}

// Get returns what is remembered of key, or looks it up.
//
// Within TTL of the beginning of its look-up a value is returned at once. From
// 7/10 of that on, or after [Cache.ExpireAll], the first who asks for it also
// begins the next look-up, which nobody waits for. Past its TTL, and within
// Stale, a value is returned at once where the loader is why it is so old: where
// a look-up that began in time has not ended yet, or the last one failed; or
// where the loader is busy or did not answer the last question, of whatever
// key, within StaleWait. Otherwise nobody has asked for the key for long, and
// the caller waits for a look-up, though not longer than StaleWait.
//
// Errors: one that wraps [ErrNotFound] where there is none; [ErrBusy];
// [ErrLoadTimeout]; a [*PanicError]; what else the loader returned; and, if ctx
// ended first, its error.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	if v, ok := c.Fresh(key); ok {
		return v, nil
	}
	return c.getSlow(ctx, c.shard(key), key, 0)
}

// Fresh is Get where that begins no look-up, and needs none. Unlike Get it never
// keeps key itself, which matters if key is a piece of a string with more in it.
func (c *Cache[K, V]) Fresh(key K) (V, bool) {
	s := c.shard(key)
	now, epoch := c.now(), c.epoch.Load()
	s.mu.Lock()
	if e, ok := s.good.Get(key); ok && now < e.freshUntil {
		if e.settled(now, epoch) || s.flights[key] != nil || now < c.notBefore(e.retry) {
			v := e.value
			e.used = now
			s.n.hits++
			s.mu.Unlock()
			return v, true
		}
	}
	s.mu.Unlock()
	var zero V
	return zero, false
}

// GetWithin is Get, but what was looked up longer than age ago is looked up
// again. Where that fails, what is remembered is answered as long as it may be.
func (c *Cache[K, V]) GetWithin(ctx context.Context, key K, age time.Duration) (V, error) {
	return c.getSlow(ctx, c.shard(key), key, c.now()-int64(age))
}

// Peek returns what is remembered of key, fresh or not, without looking it up
// and without counting as a use.
func (c *Cache[K, V]) Peek(key K) (V, bool) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.good.Peek(key); ok {
		return e.value, true
	}
	var zero V
	return zero, false
}

// Keys returns the keys of all remembered values, fresh or not, in no order.
func (c *Cache[K, V]) Keys() []K {
	var keys []K
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		keys = append(keys, s.good.Keys()...)
		s.mu.Unlock()
	}
	return keys
}

// Len returns how many values, and how many misses and failures, are
// remembered.
func (c *Cache[K, V]) Len() (entries, negative int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		entries += s.good.Len()
		negative += s.bad.Len()
		s.mu.Unlock()
	}
	return entries, negative
}

// now is the time since the cache was made, in nanoseconds: a third of the cost
// of time.Time arithmetic, and immune to changes of the wall clock.
func (c *Cache[K, V]) now() int64 { return int64(time.Since(c.start)) }

func (c *Cache[K, V]) shard(key K) *shard[K, V] {
	if c.mask == 0 {
		return &c.shards[0]
	}
	return &c.shards[maphash.Comparable(c.seed, key)&c.mask]
}
