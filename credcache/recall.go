package credcache

import "errors"

// Memory is what a cache knows of a key by itself.
type Memory uint8

// Unknown: nothing, or only that the loader failed. Fresh: a value that serves
// without a look-up. Stale: a value that is to be looked up again. Missing: that
// there is none.
const (
	Unknown Memory = iota
	Fresh
	Stale
	Missing
)

// Recall tells what is known of key, without looking it up, and without keeping
// it. Of these, only Fresh counts as a use.
func (c *Cache[K, V]) Recall(key K) (V, Memory) {
	s := c.shard(key)
	now, epoch := c.now(), c.epoch.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.good.Peek(key); ok {
		if e.settled(now, epoch) {
			s.good.Get(key)
			e.used = now
			s.n.hits++
			return e.value, Fresh
		}
		return e.value, Stale
	}
	var zero V
	if m, ok := s.bad.Peek(key); ok && errors.Is(m.err, ErrNotFound) && c.holds(m, now, epoch) {
		s.n.negative++
		return zero, Missing
	}
	return zero, Unknown
}
