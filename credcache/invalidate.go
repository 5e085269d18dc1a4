package credcache

import (
	"context"
	"fmt"
)

// Invalidate forgets key. When it returns, no caller gets what was known of key
// before: a look-up in flight ends without storing its result, those who waited
// for it look again, and who comes later starts a new one. It returns the value
// that it dropped, if there was one.
func (c *Cache[K, V]) Invalidate(key K) (V, bool) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropLocked(key)
}

// InvalidateFunc is Invalidate for every key that match accepts, and returns the
// values that it dropped, in no order. match is called under a lock and must not
// call the cache.
func (c *Cache[K, V]) InvalidateFunc(match func(K) bool) []V {
	var dropped []V
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, k := range s.good.Keys() {
			if !match(k) {
				continue
			}
			if v, ok := s.dropLocked(k); ok {
				dropped = append(dropped, v)
			}
		}
		for _, k := range s.bad.Keys() {
			if match(k) {
				s.dropLocked(k)
			}
		}
		for k := range s.flights {
			if match(k) {
				s.dropLocked(k)
			}
		}
		s.mu.Unlock()
	}
	return dropped
}

// InvalidateAll is Invalidate for every key.
func (c *Cache[K, V]) InvalidateAll() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.n.invalidated += uint64(s.good.Len())
		s.good.Purge()
		s.bad.Purge()
		for k := range s.flights {
			s.dropLocked(k)
		}
		s.mu.Unlock()
	}
}

func (s *shard[K, V]) dropLocked(key K) (dropped V, ok bool) {
	if e, found := s.good.Peek(key); found {
		dropped, ok = e.value, true
		s.good.Remove(key)
		s.n.invalidated++
	}
	s.bad.Remove(key)
	if f, ok := s.flights[key]; ok {
		delete(s.flights, key)
		f.dropped = true
		close(f.done)
	}
	return dropped, ok
}

// ExpireAll says that everything remembered may be old: each key is looked up
// again when it is next asked for, beside its use, and a look-up that has begun
// before does not count. Nothing is forgotten: until it is looked up again, a
// value serves as long as it could have without ExpireAll. Misses are not used
// again.
func (c *Cache[K, V]) ExpireAll() { c.epoch.Add(1) }

// Refresh looks key up now if it is remembered, however fresh, and waits for
// the answer. It does not count as a use. The error is the look-up's; that of a
// key which is gone wraps [ErrNotFound].
func (c *Cache[K, V]) Refresh(ctx context.Context, key K) error {
	s := c.shard(key)
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for a look-up: %w", context.Cause(ctx))
		}
		s.mu.Lock()
		if !s.good.Contains(key) {
			s.mu.Unlock()
			return nil
		}
		epoch := c.epoch.Load()
		f, err := c.joinLocked(ctx, s, key, c.now(), epoch)
		s.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a look-up: %w", context.Cause(ctx))
		}
		// A flight that had begun before the last ExpireAll is not enough.
		if !f.dropped && f.epoch == epoch {
			return f.err
		}
	}
}
