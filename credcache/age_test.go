package credcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What is in use is looked up again within its TTL, at an instant that differs
// from time to time, and whoever asks for it gets what is remembered at once.
func TestRefreshedBesideItsUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1}
		c := mustNew(t, Options{TTL: 100 * time.Second, LoadTimeout: time.Minute}, s.load)
		var lives []time.Duration
		for i := range 50 {
			c.InvalidateAll()
			start := time.Now()
			s.slow(0)
			s.set(i, nil)
			want(t, c, i, nil)
			s.slow(10 * time.Second)
			s.set(-i, nil)
			for calls := s.count(); s.count() == calls; synctest.Wait() {
				time.Sleep(time.Second / 2)
				want(t, c, i, nil)
			}
			lives = append(lives, time.Since(start))
			time.Sleep(9 * time.Second)
			want(t, c, i, nil)
			time.Sleep(time.Second)
			synctest.Wait()
			want(t, c, -i, nil)
			if took := time.Since(start); took-lives[i] != 10*time.Second {
				t.Fatalf("callers waited: %s", took)
			}
		}
		low, high := slices.Min(lives), slices.Max(lives)
		if low < 70*time.Second || high > 81*time.Second || high-low < time.Second {
			t.Errorf("looked up again after %s to %s; want within 70s and 80s, and spread", low, high)
		}
	})
}

func TestNegativeIsShortLived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{err: fmt.Errorf("no hash: %w", ErrNotFound)}
		c := mustNew(t, Options{NegativeTTL: 5 * time.Second}, s.load)
		for range 10 {
			want(t, c, 0, ErrNotFound)
		}
		wantCalls(t, s, 1)
		s.set(7, nil)
		time.Sleep(5 * time.Second)
		want(t, c, 7, nil)
		if good, bad := c.Len(); good != 1 || bad != 0 {
			t.Errorf("Len = %d, %d; want 1, 0", good, bad)
		}
	})
}

func TestStaleWhileTheLoaderFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1}
		c := mustNew(t, Options{TTL: time.Minute, Stale: time.Minute}, s.load)
		want(t, c, 1, nil)
		s.set(0, errRedis)
		time.Sleep(time.Minute)
		want(t, c, 1, nil)
		time.Sleep(59 * time.Second)
		want(t, c, 1, nil)
		time.Sleep(time.Second)
		want(t, c, 0, errRedis)
	})
}

func TestServeAnyStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1}
		c := mustNew(t, Options{TTL: time.Minute, ServeAnyStale: true}, s.load)
		want(t, c, 1, nil)
		s.set(0, errRedis)
		time.Sleep(1000 * time.Hour)
		want(t, c, 1, nil)
		if _, err := c.Get(t.Context(), id{"acme", "never seen"}); !errors.Is(err, errRedis) {
			t.Errorf("a key that was never seen: %v, want %v", err, errRedis)
		}
	})
}

func TestNotFoundReplacesTheStaleEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1}
		c := mustNew(t, Options{TTL: time.Minute, ServeAnyStale: true}, s.load)
		want(t, c, 1, nil)
		s.set(0, ErrNotFound)
		time.Sleep(time.Minute)
		want(t, c, 0, ErrNotFound)
		s.set(0, errRedis)
		time.Sleep(time.Minute)
		want(t, c, 0, errRedis)
	})
}

// A loader that fails is asked with growing pauses, and recovery shows within
// RetryMax.
func TestBackOff(t *testing.T) {
	for _, tc := range []struct {
		name string
		seen bool
	}{{"a key seen before", true}, {"a key never seen", false}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{value: 1}
				c := mustNew(t, Options{TTL: time.Minute, Stale: time.Hour}, s.load)
				if tc.seen {
					want(t, c, 1, nil)
				}
				time.Sleep(time.Minute)
				s.set(0, errRedis)
				before := s.count()
				for range 10_000 { // ten seconds of a call each millisecond
					v, err := c.Get(t.Context(), alice)
					if tc.seen && (v != 1 || err != nil) || !tc.seen && !errors.Is(err, errRedis) {
						t.Fatalf("Get = %d, %v", v, err)
					}
					time.Sleep(time.Millisecond)
				}
				if n := s.count() - before; n < 8 || n > 18 {
					t.Errorf("asked %d times in 10s, want once a second or so", n)
				}
				s.set(2, nil)
				time.Sleep(time.Second)
				_, _ = c.Get(t.Context(), alice) // starts the probe
				synctest.Wait()
				want(t, c, 2, nil)
			})
		})
	}
}

// A loader that hangs delays a caller who can be served a stale answer by
// StaleWait, once: while it is known to hang nobody waits.
func TestStaleWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1}
		c := mustNew(t, Options{TTL: time.Minute, Stale: time.Hour, StaleWait: 100 * time.Millisecond}, s.load)
		want(t, c, 1, nil)
		time.Sleep(time.Minute)
		s.slow(time.Hour)
		start := time.Now()
		want(t, c, 1, nil)
		if d := time.Since(start); d != 100*time.Millisecond {
			t.Errorf("the first caller waited %s, want 100ms", d)
		}
		start = time.Now()
		for range 100 {
			want(t, c, 1, nil)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("those after it waited %s, want not at all", d)
		}
		time.Sleep(5 * time.Second)
		s.slow(0)
		s.set(2, nil)
		for range 3 {
			_, _ = c.Get(t.Context(), alice)
			time.Sleep(time.Second)
		}
		want(t, c, 2, nil)
	})
}

// A stale entry that is evicted while its caller waits leaves the caller to the
// look-up.
func TestStaleEvictedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		c := mustNew(t, Options{Entries: 1, TTL: time.Minute, Stale: time.Hour}, func(_ context.Context, k id) (int, error) {
			if k == alice && down.Load() {
				time.Sleep(time.Second / 2)
				return 0, errRedis
			}
			return 1, nil
		})
		want(t, c, 1, nil)
		time.Sleep(time.Minute)
		down.Store(true)
		result := getMany(t.Context(), c, 3)
		synctest.Wait()
		_, _ = c.Get(t.Context(), id{"beta", "bob"})
		values, errs := result()
		for i := range values {
			if values[i] != 0 || !errors.Is(errs[i], errRedis) {
				t.Errorf("got %d, %v; want %v", values[i], errs[i], errRedis)
			}
		}
	})
}

func TestGetWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1}
		c := mustNew(t, Options{TTL: time.Hour}, s.load)
		want(t, c, 1, nil)
		s.set(2, nil)
		time.Sleep(4 * time.Second)
		for _, tc := range []struct {
			age  time.Duration
			want int
		}{{5 * time.Second, 1}, {3 * time.Second, 2}, {0, 2}} {
			if v, err := c.GetWithin(t.Context(), alice, tc.age); v != tc.want || err != nil {
				t.Errorf("GetWithin(%s) = %d, %v; want %d", tc.age, v, err, tc.want)
			}
		}
		s.set(0, errRedis)
		if v, err := c.GetWithin(t.Context(), alice, -time.Second); v != 2 || err != nil {
			t.Errorf("with a failing loader: %d, %v; want what is remembered, 2", v, err)
		}
		want(t, c, 2, nil)
	})
}

func TestCallerThatIsGoneAsksNothing(t *testing.T) {
	s := &source{value: 1}
	c := mustNew(t, Options{}, s.load)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Get(ctx, alice); !errors.Is(err, context.Canceled) {
		t.Errorf("Get = %v, want %v", err, context.Canceled)
	}
	wantCalls(t, s, 0)
}
