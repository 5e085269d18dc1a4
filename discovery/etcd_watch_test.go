package discovery

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/resolver"
)

const shopTarget = "etcd:///shop.rpc"

// fakeAndResolver returns what a test in a synctest bubble works with.
func fakeAndResolver(t *testing.T) (*fakeEtcd, *Etcd) {
	t.Helper()
	f := newFakeEtcd()
	e := newEtcd(f, slog.New(slog.DiscardHandler), defaultTimings())
	t.Cleanup(e.Close)
	return f, e
}

func expect(t *testing.T, cc *fakeConn, want string) {
	t.Helper()
	synctest.Wait()
	if got := cc.last(); got != want && (want == "" || !strings.HasPrefix(got, want)) {
		t.Fatalf("the ClientConn was told %q, want %q", got, want)
	}
}

// pass lets time go by.
func pass(d time.Duration) {
	time.Sleep(d) // fake time, inside a bubble
	synctest.Wait()
}

func TestWatchFollowsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1", "shop.rpc/2=b:1", "shop.rpc2/3=other:1", "shop.rpc=self:1")
		cc, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		expect(t, cc, "a:1 b:1")
		f.change("shop.rpc/3=c:1")
		expect(t, cc, "a:1 b:1 c:1")
		f.change("shop.rpc2/4=other:2")
		f.change("shop.rpc/1")
		expect(t, cc, "b:1 c:1")
		f.change("shop.rpc/2", "shop.rpc/3", "shop.rpc/4=d:1")
		expect(t, cc, "d:1")
	})
}

func TestWatchBelievesAnEmptyListOnlyAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1")
		cc, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		expect(t, cc, "a:1")
		f.change("shop.rpc/1")
		pass(defaultTimings().grace - time.Second)
		expect(t, cc, "a:1")
		pass(2 * time.Second)
		expect(t, cc, "error: no endpoints are registered under etcd key \"shop.rpc\"")
		if cc.emptied() != 1 {
			t.Errorf("an empty list was told %d times, want 1", cc.emptied())
		}
		f.change("shop.rpc/2=b:1")
		expect(t, cc, "b:1")
	})
}

func TestWatchNothingRegisteredYet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		cc, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		expect(t, cc, "error: no endpoints") // at once: calls must not hang
		f.change("shop.rpc/2=b:1")
		expect(t, cc, "b:1")
	})
}

func TestWatchEtcdAwayAtStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1")
		f.setDown(true)
		cc, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		pass(defaultTimings().listTimeout)
		expect(t, cc, `error: looking for endpoints under etcd key "shop.rpc": etcd did not answer within 3s`)
		f.setDown(false)
		pass(defaultTimings().listTimeout + defaultTimings().maxBackoff)
		expect(t, cc, "a:1")
	})
}

func TestWatchEtcdLostAndBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1", "shop.rpc/2=b:1")
		cc, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		expect(t, cc, "a:1 b:1")
		f.setDown(true)
		pass(24 * time.Hour)
		expect(t, cc, "a:1 b:1")
		f.change("shop.rpc/1")
		f.setDown(false)
		pass(defaultTimings().listTimeout + defaultTimings().maxBackoff)
		expect(t, cc, "b:1")
	})
}

// While etcd is away nobody can register, so that the grace period must not run
// out in that time.
func TestWatchEtcdLostWithinTheGracePeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1")
		cc, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		expect(t, cc, "a:1")
		f.change("shop.rpc/1")
		pass(10 * time.Second)
		f.setDown(true)
		pass(10 * time.Minute)
		f.setDown(false)
		pass(20 * time.Second)
		expect(t, cc, "a:1")
		f.change("shop.rpc/2=a:1")
		pass(time.Hour)
		expect(t, cc, "a:1")
		if cc.emptied() != 0 {
			t.Error("an empty list was told")
		}
	})
}

func TestWatchCompacted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1")
		cc, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		expect(t, cc, "a:1")
		f.mu.Lock()
		f.stuck = true // the watcher is away …
		f.mu.Unlock()
		f.change("shop.rpc/2=b:1")
		f.mu.Lock()
		f.stuck = false
		f.mu.Unlock()
		f.breakWatches(true) // … until what it missed is compacted
		pass(time.Second)
		expect(t, cc, "a:1 b:1")
		f.change("shop.rpc/1")
		expect(t, cc, "b:1")
	})
}

func TestWatchThatIsStuckIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1")
		cc, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		expect(t, cc, "a:1")
		f.mu.Lock()
		f.stuck = true
		f.mu.Unlock()
		f.change("shop.rpc/2=b:1")
		expect(t, cc, "a:1")
		pass(defaultTimings().probe)
		expect(t, cc, "a:1 b:1")
	})
}

// After a restart with an empty store the revisions begin anew, and a watch from
// an old one would wait for years.
func TestWatchOutlivesAResetStore(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, e := fakeAndResolver(t)
			for range 100 {
				f.change("shop.rpc/1=a:1", "shop.rpc/2=b:1")
			}
			cc, r := resolve(t, e.Builder(), shopTarget)
			defer r.Close()
			expect(t, cc, "a:1 b:1")
			f.reset()
			if same { // even the list does not show it
				f.change("shop.rpc/1=a:1", "shop.rpc/2=b:1")
			}
			pass(defaultTimings().probe)
			expect(t, cc, "a:1 b:1")
			f.change("shop.rpc/1=a:1", "shop.rpc/3=c:1")
			expect(t, cc, "a:1 b:1 c:1")
			pass(time.Hour)
			f.change("shop.rpc/1")
			pass(time.Hour)
			want := "c:1"
			if same {
				want = "b:1 c:1"
			}
			expect(t, cc, want)
			if cc.emptied() != 0 {
				t.Error("an empty list was told")
			}
		})
	}
}

func TestWatchHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1")
		cc, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		expect(t, cc, "a:1")
		f.mu.Lock()
		f.stuck = true
		f.mu.Unlock()
		f.change("shop.rpc/2=b:1")
		r.ResolveNow(resolver.ResolveNowOptions{})
		pass(defaultTimings().minProbe)
		expect(t, cc, "a:1 b:1")

		before, _, _ := f.counts()
		for range 1000 {
			r.ResolveNow(resolver.ResolveNowOptions{})
			pass(10 * time.Millisecond)
		}
		after, _, _ := f.counts()
		if after-before > 11 {
			t.Errorf("%d lists in 10 s of hints, want one a second", after-before)
		}
	})
}

func TestWatchIsSharedAndStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1")
		var ccs []*fakeConn
		var rs []resolver.Resolver
		for range 200 {
			cc, r := resolve(t, e.Builder(), shopTarget)
			ccs, rs = append(ccs, cc), append(rs, r)
		}
		for _, cc := range ccs {
			expect(t, cc, "a:1")
		}
		f.change("shop.rpc/2=b:1")
		for _, cc := range ccs {
			expect(t, cc, "a:1 b:1")
		}
		if gets, opened, _ := f.counts(); gets != 1 || opened != 1 {
			t.Errorf("%d lists and %d watches for one key", gets, opened)
		}
		for _, r := range rs[1:] {
			r.Close()
		}
		synctest.Wait()
		if _, _, open := f.counts(); open != 1 {
			t.Errorf("%d watches with one user left", open)
		}
		rs[0].Close()
		synctest.Wait()
		if _, _, open := f.counts(); open != 0 {
			t.Errorf("%d watches with no user left", open)
		}
	})
}

// A ClientConn that comes, or wakes from idleness, while etcd is away finds the
// endpoints that an earlier one had.
func TestWatchRemembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1")
		first, r := resolve(t, e.Builder(), shopTarget)
		expect(t, first, "a:1")
		r.Close()
		f.setDown(true)
		pass(time.Hour)
		second, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		pass(defaultTimings().recall)
		expect(t, second, "a:1")
		pass(time.Hour)
		expect(t, second, "a:1")
		f.change("shop.rpc/1", "shop.rpc/2=b:1")
		f.setDown(false)
		pass(defaultTimings().listTimeout + defaultTimings().maxBackoff)
		expect(t, second, "b:1")
	})
}

func TestRememberedKeysAreBounded(t *testing.T) {
	t.Parallel()
	e := newEtcd(newFakeEtcd(), slog.New(slog.DiscardHandler), defaultTimings())
	for i := range 2 * maxRemembered {
		e.rememberLocked(watchKey{key: time.Duration(i).String()}, []endpoint{{address: "a:1"}})
	}
	if len(e.remembered) != maxRemembered {
		t.Errorf("%d keys are remembered", len(e.remembered))
	}
}

// A watch that etcd refuses though it answers to lists, as one whose auth token
// has expired, is not asked for without pause.
func TestWatchThatIsRefusedDoesNotSpin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, e := fakeAndResolver(t)
		f.change("shop.rpc/1=a:1")
		f.mu.Lock()
		f.refuse = true
		f.mu.Unlock()
		cc, r := resolve(t, e.Builder(), shopTarget)
		defer r.Close()
		expect(t, cc, "a:1")
		pass(time.Minute) // the pauses have grown
		gets, opened, _ := f.counts()
		pass(time.Hour)
		afterGets, afterOpened, _ := f.counts()
		most := int(time.Hour / (defaultTimings().maxBackoff * 4 / 5))
		if afterGets-gets > most || afterOpened-opened > most {
			t.Errorf("%d lists and %d watches in an hour, want %d at most", afterGets-gets, afterOpened-opened, most)
		}
		// What changes meanwhile is seen by the lists.
		f.change("shop.rpc/2=b:1")
		pass(defaultTimings().maxBackoff)
		expect(t, cc, "a:1 b:1")
		f.mu.Lock()
		f.refuse = false
		f.mu.Unlock()
		pass(defaultTimings().maxBackoff)
		f.change("shop.rpc/3=c:1")
		expect(t, cc, "a:1 b:1 c:1")
	})
}
