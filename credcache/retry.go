package credcache

import (
	"math/rand/v2"
	"time"
)

// pending tells whether a look-up failed and none has succeeded since.
func (c *Cache[K, V]) pending(r retry) bool { return r.wait > 0 && r.era == c.era.Load() }

// notBefore is the instant of the next look-up after those that failed; 0 where
// none did.
func (c *Cache[K, V]) notBefore(r retry) int64 {
	if !c.pending(r) {
		return 0
	}
	return r.at
}

// holds tells whether m is an answer still.
func (c *Cache[K, V]) holds(m miss, now int64, epoch uint64) bool {
	if m.failure() {
		return now < c.notBefore(m.retry)
	}
	return now < m.until && m.epoch == epoch
}

// next doubles a wait within its bounds. Up to a quarter of it is jitter, so
// that many keys do not come back at once.
func (c *Cache[K, V]) next(r retry) retry {
	if !c.pending(r) {
		r.wait = 0
	}
	wait := min(max(2*r.wait, c.o.RetryMin), c.o.ErrorTTL)
	at := c.now() + int64(wait-rand.N(wait/4+1)) //nolint:gosec // jitter is no secret
	return retry{at: at, wait: wait, era: c.era.Load()}
}

// Recovered says that the loader is known to answer again: failures are
// forgotten, so that who asks next has it asked at once.
func (c *Cache[K, V]) Recovered() {
	c.era.Add(1)
	c.troubled.Store(false)
}

// refreshAfter is when, after its look-up began, a value is due to be looked up
// again: with some spread, so that what was loaded together does not stay
// together, and with time left for the loader.
func (o *Options) refreshAfter() time.Duration {
	return o.TTL*7/10 + rand.N(o.TTL/10+1) //nolint:gosec // jitter is no secret
}
