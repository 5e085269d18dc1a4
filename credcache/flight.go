package credcache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// flight is one look-up under way and those who wait for it. It is the cache's
// own rather than x/sync/singleflight's, whose keys are strings: a key made by
// joining the fields of a struct is how two tenants meet in one flight (app
// "a", token "b/c" and app "a/b", token "c").
//
// A flight is live while it is in its shard's map. Whatever takes it out (its
// end, its time limit, an invalidation) sets the result and closes done, once,
// under the shard's lock; a loader that returns later is not heard.
type flight[V any] struct {
	done    chan struct{}
	started int64
	epoch   uint64

	// Written before done is closed, read after.
	value   V
	err     error
	dropped bool // invalidated: look again
}

// maxRounds bounds how often a caller looks again because its flight was
// invalidated under way.
const maxRounds = 8

// getSlow is Get after its fast path found nothing fresh. What was looked up
// before the instant notBefore is not fresh either.
//
// groupcache must look into the cache again inside the flight: of two callers
// that both missed, the second may enter the flight group only after the
// first's flight has stored its value and gone, and would load once more. Here
// look-up and flight have one lock: a caller finds the value, or the flight
// that will bring it, or starts one, in one critical section, and a flight ends
// in the critical section that stores its value. The first look of Get is
// repeated here for that reason.
func (c *Cache[K, V]) getSlow(ctx context.Context, s *shard[K, V], key K, notBefore int64) (V, error) {
	var zero V
	var since uint64 // the epoch that counts
	for range maxRounds {
		if err := ctx.Err(); err != nil {
			return zero, fmt.Errorf("waiting for a look-up: %w", context.Cause(ctx))
		}
		s.mu.Lock()
		now, epoch := c.now(), c.epoch.Load()
		e, found := s.good.Get(key)
		usable := found && e.loaded >= notBefore && e.epoch >= since
		if usable && now < e.freshUntil {
			if !e.settled(now, epoch) && now >= c.notBefore(e.retry) {
				// Nobody waits for it; ErrBusy leaves it to who comes next.
				_, _ = c.joinLocked(ctx, s, key, now, epoch)
			}
			v := e.value
			e.used = now
			s.n.hits++
			s.mu.Unlock()
			return v, nil
		}
		servable := found && c.servable(e, now)
		if servable && now < c.notBefore(e.retry) {
			v := e.value
			e.used = now
			s.n.stale++
			s.mu.Unlock()
			return v, nil
		}
		if m, ok := s.bad.Get(key); ok && !servable && c.holds(m, now, epoch) {
			if m.failure() {
				s.n.failing++
			} else {
				s.n.negative++
			}
			s.mu.Unlock()
			return zero, m.err
		}
		f, err := c.joinLocked(ctx, s, key, now, epoch)
		if servable && (err != nil || c.pending(e.retry) || usable && c.late(f, e)) {
			// Nobody waits for a loader that is busy, or known to fail or to be slow.
			v := e.value
			e.used = now
			s.n.stale++
			s.mu.Unlock()
			return v, nil //nolint:nilerr // the stale answer stands in for the error
		}
		s.n.misses++
		s.mu.Unlock()
		if err != nil {
			return zero, err
		}
		v, again, err := c.wait(ctx, s, key, f, epoch, servable)
		if !again {
			return v, err
		}
		since = epoch // what f found does not count, if it was begun before
	}
	return zero, fmt.Errorf("invalidated %d times while it was looked up: %w", maxRounds, ErrBusy)
}

// servable tells whether e may be answered while the loader fails.
func (c *Cache[K, V]) servable(e *entry[K, V], now int64) bool {
	return c.o.ServeAnyStale || now < e.staleUntil
}

// late tells whether e would still be fresh if the loader answered in time: it
// is f that it waits for, begun before its time was over; or others' look-ups
// are late.
func (c *Cache[K, V]) late(f *flight[V], e *entry[K, V]) bool {
	return f.started < e.freshUntil || c.troubled.Load()
}

// wait waits for f, for ctx, or, where a stale answer can be served instead,
// for StaleWait. again is true where the caller must look anew: f was
// invalidated, or had begun before the epoch in which the caller came.
func (c *Cache[K, V]) wait(
	ctx context.Context, s *shard[K, V], key K, f *flight[V], epoch uint64, servable bool,
) (v V, again bool, err error) {
	var patience <-chan time.Time
	if servable {
		t := time.NewTimer(c.o.StaleWait)
		defer t.Stop()
		patience = t.C
	}
	select {
	case <-f.done:
		switch answered := f.err == nil || errors.Is(f.err, ErrNotFound); {
		case f.dropped, answered && f.epoch != epoch:
			return v, true, nil
		case answered, !servable:
			return f.value, false, f.err
		}
	case <-patience:
	case <-ctx.Done():
		return v, false, fmt.Errorf("waiting for a look-up: %w", context.Cause(ctx))
	}
	// The stale answer serves, unless it was invalidated meanwhile.
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.good.Peek(key)
	if !ok || !c.servable(e, c.now()) {
		return v, true, nil
	}
	if !c.pending(e.retry) && s.flights[key] == f {
		e.retry = retry{wait: c.o.RetryMin, era: c.era.Load()} // who comes next need not wait for f
	}
	e.used = c.now()
	s.n.stale++
	return e.value, false, nil
}

// joinLocked returns the flight of key, or starts one.
func (c *Cache[K, V]) joinLocked(ctx context.Context, s *shard[K, V], key K, now int64, epoch uint64) (*flight[V], error) {
	if f, ok := s.flights[key]; ok {
		return f, nil
	}
	select {
	case c.slots <- struct{}{}:
	default:
		s.n.loads[outcomeBusy]++
		return nil, ErrBusy
	}
	f := &flight[V]{done: make(chan struct{}), started: now, epoch: epoch}
	s.flights[key] = f
	go c.fly(context.WithoutCancel(ctx), s, key, f)
	return f, nil
}

// fly runs the loader. Its slot is held until the loader is back, even if that
// is after the flight's end: a loader that ignores its context stays bounded.
func (c *Cache[K, V]) fly(ctx context.Context, s *shard[K, V], key K, f *flight[V]) {
	ctx, cancel := context.WithTimeout(ctx, c.o.LoadTimeout)
	defer cancel()
	var zero V
	stop := context.AfterFunc(ctx, func() {
		c.land(s, key, f, zero, fmt.Errorf("%w after %s", ErrLoadTimeout, c.o.LoadTimeout))
	})
	defer stop()

	v, err := zero, errGone
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		// Before landing: who was waiting finds a free slot.
		<-c.slots
		c.land(s, key, f, v, err)
	}()
	v, err = c.load(ctx, key)
}

// land ends f with a result, if it is still live, and remembers the result.
func (c *Cache[K, V]) land(s *shard[K, V], key K, f *flight[V], v V, err error) {
	out := outcomeOf(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[key] != f {
		return
	}
	delete(s.flights, key)
	s.n.loads[out]++
	f.value, f.err = v, err
	answered := out == outcomeOK || out == outcomeNotFound
	c.troubled.Store(!answered || c.now()-f.started > int64(c.o.StaleWait))
	switch out {
	case outcomeOK:
		c.storeLocked(s, key, f)
	case outcomeNotFound:
		s.good.Remove(key)
		c.missLocked(s, key, miss{err: err, until: c.now() + int64(c.o.NegativeTTL), epoch: f.epoch})
	default:
		c.failedLocked(s, key, err)
	}
	close(f.done)
}

func (c *Cache[K, V]) storeLocked(s *shard[K, V], key K, f *flight[V]) {
	s.bad.Remove(key)
	// In place, where there is one: a refresh is not a use.
	e, refreshed := s.good.Peek(key)
	if !refreshed {
		e = &entry[K, V]{key: key, used: c.now(), index: -1}
	}
	e.value, e.loaded, e.epoch, e.retry = f.value, f.started, f.epoch, retry{}
	e.due = f.started + int64(c.o.refreshAfter())
	e.freshUntil = f.started + int64(c.o.TTL)
	e.staleUntil = e.freshUntil + int64(c.o.Stale)
	if !refreshed && s.good.Add(key, e) {
		s.n.evictions++
	}
	s.agenda.put(e, e.due)
}

func (c *Cache[K, V]) missLocked(s *shard[K, V], key K, m miss) {
	if s.bad.Add(key, m) {
		s.n.negativeEvictions++
	}
}

// failedLocked puts the next look-up of key off: in its entry, which keeps
// serving, or else in the misses.
func (c *Cache[K, V]) failedLocked(s *shard[K, V], key K, err error) {
	if e, ok := s.good.Peek(key); ok && c.servable(e, c.now()) {
		e.retry = c.next(e.retry)
		return
	}
	m, _ := s.bad.Peek(key)
	c.missLocked(s, key, miss{err: err, retry: c.next(m.retry)})
}
