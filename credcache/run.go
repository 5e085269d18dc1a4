package credcache

import (
	"context"
	"time"
)

const (
	// maxKeeping leaves most look-ups to callers.
	maxKeeping = 16
	// minRest is the least time between two rounds of Run.
	minRest = time.Millisecond
)

// Run looks up again, before its TTL ends, what was used within TTL + Stale,
// until ctx ends. Without it only what is used in that time is kept: whoever
// comes after a pause may have to wait for a look-up. Where the loader fails, a
// key is tried again each tenth of the TTL, though not more often than each
// ErrorTTL, as long as its value may be served.
func (c *Cache[K, V]) Run(ctx context.Context) {
	n := min(maxKeeping, max(1, c.o.MaxLoads/4))
	timer := time.NewTimer(minRest)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		rest := c.o.TTL / 2 // what is stored from now on is not due before
		for i := range c.shards {
			rest = min(rest, c.keep(ctx, &c.shards[i], n))
		}
		timer.Reset(max(rest, minRest))
	}
}

// keep looks up what is due in s, n keys at a time, and returns the time until
// the next is.
func (c *Cache[K, V]) keep(ctx context.Context, s *shard[K, V], n int) time.Duration {
	for ctx.Err() == nil {
		flights, rest := c.takeDue(ctx, s, n)
		for _, f := range flights {
			select {
			case <-f.done:
			case <-ctx.Done():
			}
		}
		if len(flights) < n {
			return rest
		}
	}
	return 0
}

// takeDue begins up to n look-ups of what is due. The time until the next is
// meaningful where there were fewer.
func (c *Cache[K, V]) takeDue(ctx context.Context, s *shard[K, V], n int) ([]*flight[V], time.Duration) {
	var flights []*flight[V]
	again := int64(max(c.o.TTL/10, c.o.ErrorTTL)) // where a look-up fails; one that succeeds says when itself
	s.mu.Lock()
	defer s.mu.Unlock()
	for range maxKeeping * 4 { // of which some need no look-up: the lock is not held for all that is due
		if len(s.agenda) == 0 {
			return flights, c.o.TTL
		}
		e, now := s.agenda[0], c.now()
		if e.at > now {
			return flights, time.Duration(e.at - now)
		}
		if now-e.used > int64(c.o.TTL+c.o.Stale) || now >= e.freshUntil && !c.servable(e, now) {
			s.agenda.drop(e)
			continue
		}
		if at := c.notBefore(e.retry); now < at {
			s.agenda.put(e, at)
			continue
		}
		s.agenda.put(e, now+again)
		if f, err := c.joinLocked(ctx, s, e.key, now, c.epoch.Load()); err == nil {
			if flights = append(flights, f); len(flights) == n {
				return flights, 0
			}
		}
	}
	return flights, 0
}
