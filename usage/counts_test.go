package usage

import (
	"strconv"
	"testing"
)

// taken is all that a take gives, summed up.
func taken(c *Counts) map[[2]string]Used {
	all := map[[2]string]Used{}
	c.take(func(app, route string, used Used) {
		sum := all[[2]string{app, route}]
		sum.add(&used)
		all[[2]string{app, route}] = sum
	})
	return all
}

func TestCountsByAppRouteAndBlame(t *testing.T) {
	t.Parallel()
	c := NewCounts()
	c.Count("acme", "GET /a", Nobody, 1, 10)
	c.Count("acme", "GET /a", Caller, 2, 20)
	c.Count("acme", "GET /a", Gateway, 0, 0)
	c.Count("acme", "GET /b", Backend, 4, 0)
	c.Count("other", "GET /a", Nobody, 0, 5)
	want := map[[2]string]Used{
		{"acme", "GET /a"}:  {Calls: 3, CallerFailures: 1, GatewayFailures: 1, BytesIn: 3, BytesOut: 30},
		{"acme", "GET /b"}:  {Calls: 1, BackendFailures: 1, BytesIn: 4},
		{"other", "GET /a"}: {Calls: 1, BytesOut: 5},
	}
	got := taken(c)
	if len(got) != len(want) {
		t.Errorf("taken %v, want %v", got, want)
	}
	for key, used := range want {
		if got[key] != used {
			t.Errorf("%v: %+v, want %+v", key, got[key], used)
		}
	}
	if again := taken(c); len(again) != 0 {
		t.Errorf("taken twice: %v", again)
	}
}

// What is counted while it is taken, and while idle apps leave, is all there in
// the end.
func TestNothingIsLostBetweenCountingAndTaking(t *testing.T) {
	t.Parallel()
	c := NewCounts()
	const goroutines, calls, apps = 8, 20_000, 50
	var progress [goroutines]chan struct{}
	for g := range goroutines {
		progress[g] = make(chan struct{})
		go func() {
			defer close(progress[g])
			for i := range calls {
				c.Count("app"+strconv.Itoa((i/100+g)%apps), "GET /", Blame(i%4), 1, 2)
				if i%100 == 99 {
					progress[g] <- struct{}{}
				}
			}
		}()
	}
	var sum Used
	add := func(_, _ string, used Used) { sum.add(&used) }
	for range calls / 100 {
		for _, p := range progress { // nobody is held up for as many rounds as an entry is kept
			<-p
		}
		c.take(add)
	}
	for _, p := range progress {
		<-p
	}
	c.take(add)
	const n = goroutines * calls
	if want := (Used{n, n / 4, n / 4, n / 4, n, 2 * n}); sum != want {
		t.Errorf("taken %+v, want %+v", sum, want)
	}
}

func TestIdleAppsMakeRoom(t *testing.T) {
	t.Parallel()
	c := NewCounts()
	for i := range 1000 {
		c.Count("app"+strconv.Itoa(i), "GET /", Nobody, 0, 0)
	}
	taken(c)
	for range idleRounds {
		c.Count("app7", "GET /", Nobody, 0, 0)
		taken(c)
	}
	taken(c)
	left := c.counted.Len()
	if left != 1 {
		t.Errorf("%d apps are kept, want the one that calls", left)
	}
	c.Count("app7", "GET /", Nobody, 0, 0)
	c.Count("app8", "GET /", Nobody, 0, 0)
	if got := taken(c); len(got) != 2 {
		t.Errorf("taken %v", got)
	}
}

func TestAFloodOfAppsIsBounded(t *testing.T) {
	t.Parallel()
	c := NewCounts()
	const apps, routes = 100_000, 2
	for i := range apps {
		for r := range routes {
			c.Count("app"+strconv.Itoa(i), "GET /"+strconv.Itoa(r), Nobody, 0, 0)
		}
	}
	var calls, others, entries int64
	c.take(func(_, route string, used Used) {
		entries++
		calls += used.Calls
		if route == OtherRoute {
			others += used.Calls
		}
	})
	if entries > maxCounted+maxOthers {
		t.Errorf("%d entries, want at most %d", entries, maxCounted+maxOthers)
	}
	if others == 0 {
		t.Error("nothing was counted for other routes")
	}
	if lost := c.lost.Load(); calls+lost != apps*routes || lost == 0 {
		t.Errorf("%d calls counted and %d told to be lost, of %d", calls, lost, apps*routes)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	c := NewCounts()
	c.Count("acme", "GET /v1/users/{id}", Nobody, 1, 2)
	if n := testing.AllocsPerRun(1000, func() { c.Count("acme", "GET /v1/users/{id}", Backend, 1, 2) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkCount(b *testing.B) {
	apps := make([]string, 1000)
	for i := range apps {
		apps[i] = "app" + strconv.Itoa(i)
	}
	for _, bc := range []struct {
		name string
		apps []string
	}{{"one app", apps[:1]}, {"a thousand apps", apps}} {
		b.Run(bc.name, func(b *testing.B) {
			c := NewCounts()
			for range 2 { // busy from the first round on
				for range busyRound + 1 {
					c.Count(bc.apps[0], "GET /v1/users/{id}", Nobody, 1, 2)
				}
				taken(c)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					c.Count(bc.apps[i%len(bc.apps)], "GET /v1/users/{id}", Nobody, 1, 2)
				}
			})
		})
	}
}
