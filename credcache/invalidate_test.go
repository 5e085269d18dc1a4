package credcache

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A look-up that had begun before an invalidation neither answers nor stays.
func TestInvalidationBeatsALoadInFlight(t *testing.T) {
	for _, tc := range []struct {
		name       string
		invalidate func(*Cache[id, int])
	}{
		{"Invalidate", func(c *Cache[id, int]) { c.Invalidate(alice) }},
		{"InvalidateAll", func(c *Cache[id, int]) { c.InvalidateAll() }},
		{"InvalidateFunc", func(c *Cache[id, int]) { c.InvalidateFunc(func(k id) bool { return k.app == "acme" }) }},
		{"ExpireAll", func(c *Cache[id, int]) { c.ExpireAll() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old := make(chan struct{})
				s := &source{value: 1, block: old}
				c := mustNew(t, Options{}, s.load)
				before := getMany(t.Context(), c, 3)
				synctest.Wait()

				s.mu.Lock()
				s.value, s.block = 2, nil
				s.mu.Unlock()
				tc.invalidate(c)
				after := getMany(t.Context(), c, 3)
				synctest.Wait()
				close(old)
				for who, result := range map[string]func() ([]int, []error){"before": before, "after": after} {
					values, errs := result()
					for i := range values {
						if ok := values[i] == 2 || tc.name == "ExpireAll" && who == "before"; !ok || errs[i] != nil {
							t.Errorf("who came %s got %d, %v; want 2", who, values[i], errs[i])
						}
					}
				}
				want(t, c, 2, nil)
				wantCalls(t, s, 2)
			})
		})
	}
}

func TestInvalidateForgetsEverythingOfAKey(t *testing.T) {
	s := &source{}
	c := mustNew(t, Options{ServeAnyStale: true}, s.load)
	for _, first := range []error{nil, ErrNotFound, errRedis} {
		s.set(1, first)
		_, _ = c.Get(t.Context(), alice)
		c.Invalidate(alice)
		s.set(2, nil)
		want(t, c, 2, nil)
		s.set(0, errRedis)
		c.Invalidate(alice)
		want(t, c, 0, errRedis) // nothing stale is left
		c.InvalidateAll()
	}
}

func TestExpireAllKeepsStaleAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1}
		c := mustNew(t, Options{TTL: time.Minute, Stale: time.Minute}, s.load)
		want(t, c, 1, nil)
		s.set(0, errRedis)
		for range 100 { // like a subscription that cannot be made
			c.ExpireAll()
			want(t, c, 1, nil)
			time.Sleep(time.Second)
		}
		if n := s.count(); n > 110 {
			t.Errorf("the failing loader was asked %d times in 100s", n)
		}
		time.Sleep(20 * time.Second)
		want(t, c, 0, errRedis)

		s.set(0, ErrNotFound)
		time.Sleep(time.Second)
		want(t, c, 0, ErrNotFound)
		s.set(3, nil)
		c.ExpireAll()
		want(t, c, 3, nil)
	})
}

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1}
		c := mustNew(t, Options{TTL: time.Hour, Entries: 2}, s.load)
		if err := c.Refresh(t.Context(), alice); err != nil || s.count() != 0 {
			t.Fatalf("of a key that is not remembered: %v, %d calls", err, s.count())
		}
		want(t, c, 1, nil)
		s.set(2, nil)
		if err := c.Refresh(t.Context(), alice); err != nil {
			t.Fatal(err)
		}
		want(t, c, 2, nil)
		s.set(0, errRedis)
		if err := c.Refresh(t.Context(), alice); !errors.Is(err, errRedis) {
			t.Fatalf("Refresh = %v, want %v", err, errRedis)
		}
		want(t, c, 2, nil)
		s.set(0, ErrNotFound)
		if err := c.Refresh(t.Context(), alice); !errors.Is(err, ErrNotFound) {
			t.Fatalf("Refresh = %v, want %v", err, ErrNotFound)
		}
		want(t, c, 0, ErrNotFound)
	})
}

func TestRefreshIsNoUse(t *testing.T) {
	c := mustNew(t, Options{Entries: 2}, func(context.Context, string) (int, error) { return 1, nil })
	for _, k := range []string{"old", "new"} {
		_, _ = c.Get(t.Context(), k)
	}
	if err := c.Refresh(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Get(t.Context(), "newest")
	if _, ok := c.Peek("old"); ok {
		t.Error("the least recently used entry stayed because it was refreshed")
	}
}

// Property: once an invalidation that follows a change has returned, no caller
// sees what was before the change, whatever else goes on.
func TestNoAnswerFromBeforeAnInvalidation(t *testing.T) {
	const keys, writers, readers, rounds = 4, 2, 6, 2000
	var truth [keys]atomic.Int64   // what the loader reads
	var promise [keys]atomic.Int64 // what every later Get must reach
	c := mustNew(t, Options{Entries: 3, NegativeEntries: 2, TTL: time.Hour, ServeAnyStale: true}, func(_ context.Context, k string) (int64, error) {
		i, _ := strconv.Atoi(k)
		v := truth[i].Load()
		switch rand.N(20) {
		case 0:
			return 0, errRedis
		case 1:
			panic("now and then")
		}
		return v, nil
	})
	var wg, writing sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		writing.Add(1)
		wg.Go(func() {
			defer writing.Done()
			for range rounds {
				i := rand.N(keys/writers)*writers + w // each key has one writer
				v := truth[i].Add(1)
				if rand.N(10) == 0 {
					c.InvalidateAll()
				} else {
					c.Invalidate(strconv.Itoa(i))
				}
				promise[i].Store(v)
			}
		})
	}
	for range readers {
		wg.Go(func() {
			for !done.Load() {
				i := rand.N(keys)
				least := promise[i].Load()
				v, err := c.Get(t.Context(), strconv.Itoa(i))
				if err == nil && v < least {
					t.Errorf("key %d: got %d after %d was promised", i, v, least)
					return
				}
				if rand.N(50) == 0 {
					c.ExpireAll()
				}
				if rand.N(50) == 0 {
					_ = c.Refresh(t.Context(), strconv.Itoa(i))
				}
			}
		})
	}
	writing.Wait()
	done.Store(true)
	wg.Wait()
}

func TestInvalidationReturnsWhatItDropped(t *testing.T) {
	c := mustNew(t, Options{}, func(_ context.Context, k string) (int, error) {
		if k == "gone" {
			return 0, ErrNotFound
		}
		return strconv.Atoi(k)
	})
	for _, k := range []string{"1", "2", "3", "gone"} {
		_, _ = c.Get(t.Context(), k)
	}
	if v, ok := c.Invalidate("1"); v != 1 || !ok {
		t.Errorf("Invalidate = %d, %v; want 1", v, ok)
	}
	for _, k := range []string{"1", "gone", "never"} {
		if v, ok := c.Invalidate(k); ok {
			t.Errorf("Invalidate(%q) = %d; want nothing", k, v)
		}
	}
	got := c.InvalidateFunc(func(k string) bool { return k != "2" })
	if len(got) != 1 || got[0] != 3 {
		t.Errorf("InvalidateFunc = %v, want [3]", got)
	}
}

// Who is not there any more has nothing looked up.
func TestRefreshOfOneWhoGaveUp(t *testing.T) {
	s := &source{value: 1}
	c := mustNew(t, Options{}, s.load)
	want(t, c, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Refresh(ctx, alice); !errors.Is(err, context.Canceled) {
		t.Errorf("Refresh = %v, want %v", err, context.Canceled)
	}
	if n := len(c.slots); n != 0 {
		t.Errorf("%d look-ups are running", n)
	}
	wantCalls(t, s, 1)
}
