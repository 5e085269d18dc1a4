package credcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// kept runs c.Run until the test's bubble ends.
func kept(t *testing.T, c *Cache[id, int]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		time.Sleep(time.Minute) // until the last look-up has come back, or its time is up
	})
}

// atOnce wants alice's value without a wait.
func atOnce(t *testing.T, c *Cache[id, int], value int) {
	t.Helper()
	start := time.Now()
	want(t, c, value, nil)
	if d := time.Since(start); d != 0 {
		t.Fatalf("the caller waited %s", d)
	}
}

// However long the pauses between its uses, and however slow the loader, who
// asks for what is remembered does not wait, and gets no value whose look-up
// began longer than TTL ago while the loader answers.
func TestRememberedIsNeverWaitedFor(t *testing.T) {
	for _, delay := range []time.Duration{0, 90 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{}
				c := mustNew(t, Options{TTL: time.Minute, Stale: 10 * time.Minute, LoadTimeout: 10 * time.Second},
					func(ctx context.Context, k id) (int, error) {
						began := time.Now()
						_, err := s.load(ctx, k)
						return int(began.UnixMilli()), err
					})
				kept(t, c)
				if _, err := c.Get(t.Context(), alice); err != nil {
					t.Fatal(err)
				}
				s.slow(delay)
				for range 100 {
					time.Sleep(rand.N(11 * time.Minute))
					start := time.Now()
					v, err := c.Get(t.Context(), alice)
					if d := time.Since(start); d != 0 || err != nil {
						t.Fatalf("the caller waited %s, %v", d, err)
					}
					if age := start.Sub(time.UnixMilli(int64(v))); age > time.Minute {
						t.Fatalf("the value is %s old", age)
					}
				}
			})
		})
	}
}

// What is not used for longer is looked up no more; who comes then waits for a
// look-up, but not for long.
func TestIdleIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1}
		c := mustNew(t, Options{TTL: time.Minute, Stale: 4 * time.Minute}, s.load)
		kept(t, c)
		want(t, c, 1, nil)
		time.Sleep(time.Hour)
		if n := s.count(); n < 6 || n > 9 {
			t.Errorf("looked up %d times, want for 5 minutes of an hour", n)
		}
		s.set(0, ErrNotFound)
		want(t, c, 0, ErrNotFound)
		time.Sleep(time.Hour)
		s.set(2, nil)
		want(t, c, 2, nil)
		n := s.count()
		time.Sleep(time.Minute)
		if s.count() == n {
			t.Error("what came back is not looked up again")
		}
	})
}

// While the loader fails, what is remembered serves without a wait as long as it
// may; the loader is not asked all the time; and what it says once it answers
// again is known without a call.
func TestKeptWhileTheLoaderFails(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprint("hangs ", hangs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{value: 1}
				c := mustNew(t, Options{TTL: time.Minute, Stale: 10 * time.Minute}, s.load)
				kept(t, c)
				want(t, c, 1, nil)
				if hangs {
					s.slow(time.Hour)
				}
				s.set(0, errRedis)
				asked := s.count()
				time.Sleep(3 * time.Minute)
				if n := s.count() - asked; n < 10 || n > 40 {
					t.Errorf("asked %d times in 3 minutes", n)
				}
				for range 400 {
					atOnce(t, c, 1)
					time.Sleep(time.Second)
				}
				s.slow(0)
				s.set(2, nil)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				atOnce(t, c, 2)

				s.set(0, errRedis)
				time.Sleep(11*time.Minute + time.Second)
				want(t, c, 0, errRedis) // beyond Stale
			})
		})
	}
}

// One key's failure holds up the look-ups of no other.
func TestKeepingIsByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := id{"beta", "bob"}
		asked := map[id]int{}
		var mu sync.Mutex
		failing := false
		c := mustNew(t, Options{TTL: time.Minute, Stale: time.Hour}, func(_ context.Context, k id) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[k]++
			if failing && k == broken {
				return 0, errRedis
			}
			return asked[k], nil
		})
		kept(t, c)
		for _, k := range []id{alice, broken} {
			if _, err := c.Get(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		failing = true
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		start := time.Now()
		v, err := c.Get(t.Context(), alice)
		if err != nil || v < 12 || time.Since(start) != 0 {
			t.Errorf("alice: %d, %v", v, err)
		}
		if v, err := c.Get(t.Context(), broken); v != 1 || err != nil {
			t.Errorf("the one that fails: %d, %v", v, err)
		}
	})
}

// The three lifetimes are three: of a value, of a miss, of a failure; and a
// failure is never a miss.
func TestLifetimesApart(t *testing.T) {
	type answer struct {
		value int
		err   error
	}
	yes, no, down := answer{1, nil}, answer{0, ErrNotFound}, answer{0, errRedis}
	o := Options{TTL: time.Hour, NegativeTTL: 10 * time.Minute, ErrorTTL: 20 * time.Second, RetryMin: 20 * time.Second}
	for _, tc := range []struct {
		name          string
		first, second answer
		lasts         time.Duration // the first, at least
		until         time.Duration // and at most
	}{
		{"yes, then no", yes, no, 59 * time.Minute, time.Hour},
		{"yes, then down", yes, down, 59 * time.Minute, time.Hour},
		{"no, then yes", no, yes, 9 * time.Minute, 10 * time.Minute},
		{"no, then down", no, down, 9 * time.Minute, 10 * time.Minute},
		{"down, then yes", down, yes, 14 * time.Second, 20 * time.Second},
		{"down, then no", down, no, 14 * time.Second, 20 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{}
				c := mustNew(t, o, s.load)
				s.set(tc.first.value, tc.first.err)
				want(t, c, tc.first.value, tc.first.err)
				s.set(tc.second.value, tc.second.err)
				start := time.Now()
				if tc.first == yes {
					time.Sleep(tc.lasts) // its use would have it looked up again
				}
				for time.Since(start) < tc.until {
					if _, err := c.Get(t.Context(), alice); !errors.Is(err, tc.first.err) {
						if d := time.Since(start); d < tc.lasts {
							t.Errorf("it lasted %s", d)
						}
						break
					}
					time.Sleep(time.Second)
				}
				want(t, c, tc.second.value, tc.second.err)
			})
		})
	}
}

// Who knows that the loader answers again has it asked at once, whatever the
// back-off was.
func TestRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{err: errRedis}
		c := mustNew(t, Options{ErrorTTL: time.Hour, RetryMin: time.Hour}, s.load)
		want(t, c, 0, errRedis)
		s.set(1, nil)
		time.Sleep(time.Minute)
		want(t, c, 0, errRedis)
		c.Recovered()
		want(t, c, 1, nil)
	})
}

// The agenda is the entries there are, whatever befalls them, in order.
func TestAgendaFollowsTheEntries(t *testing.T) {
	s := &source{value: 1}
	c := mustNew(t, Options{Entries: 50}, s.load)
	sh := &c.shards[0]
	for range 5000 {
		k := id{"acme", fmt.Sprint(rand.N(80))}
		switch rand.N(4) {
		case 0:
			c.Invalidate(k)
		case 1:
			_ = c.Refresh(t.Context(), k)
		default:
			_, _ = c.Get(t.Context(), k)
		}
		sh.mu.Lock()
		if len(sh.agenda) != sh.good.Len() {
			t.Fatalf("%d on the agenda, %d entries", len(sh.agenda), sh.good.Len())
		}
		for i, e := range sh.agenda {
			if got, ok := sh.good.Peek(e.key); !ok || got != e || e.index != i || e.at < sh.agenda[0].at {
				t.Fatalf("%v is on the agenda, and not remembered or out of order", e.key)
			}
		}
		sh.mu.Unlock()
	}
	c.InvalidateAll()
	if len(sh.agenda) != 0 || slices.Contains(sh.good.Keys(), alice) {
		t.Error("the agenda keeps what is gone")
	}
}
