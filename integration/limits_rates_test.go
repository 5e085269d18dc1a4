package integration_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/limits/global"
)

// limitersAt are the limiters of so many gateways before one Redis.
type limitersAt struct {
	t    *testing.T
	cfg  config.Limiting
	each []*global.Limiter
	stop []func()
}

// startLimiters starts them as configured; more are options of their clients.
func startLimiters(t *testing.T, addr string, n int, cfg config.Limiting, more ...func(*config.Redis)) *limitersAt {
	t.Helper()
	cfg.Gateways = n
	l := &limitersAt{t: t, cfg: cfg}
	for range n {
		c := config.Defaults().Redis
		c.Addresses = []string{addr}
		for _, change := range more {
			change(&c)
		}
		rdb, err := auth.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		limiter, err := global.New(rdb, config.Auth{}, cfg, global.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- limiter.Run(ctx) }()
		stop := sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			_ = rdb.Close()
		})
		t.Cleanup(stop)
		l.each, l.stop = append(l.each, limiter), append(l.stop, stop)
	}
	return l
}

// offered is what became of calls.
type offered struct {
	granted, refused []int
	took             time.Duration
	slowest          time.Duration // that one of them waited for its decision
}

func (o offered) sum() (granted, all int) {
	for i := range o.granted {
		granted, all = granted+o.granted[i], all+o.granted[i]+o.refused[i]
	}
	return granted, all
}

// offer has calls come for a while, at a rate for each gateway.
func (l *limitersAt) offer(d time.Duration, key limits.Key, spec limits.Spec, perSecond func(since time.Duration) []float64) offered {
	o := offered{granted: make([]int, len(l.each)), refused: make([]int, len(l.each))}
	var tasks sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	for i, limiter := range l.each {
		tasks.Go(func() {
			a := limiter.Find(key, spec)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			last, due := time.Duration(0), 0.0
			var slowest time.Duration
			for now := range tick.C {
				since := now.Sub(start)
				if since > d {
					break
				}
				due += perSecond(since)[i] * (since - last).Seconds()
				last = since
				for ; due >= 1; due-- {
					before := time.Now()
					if d := a.Take(limiter.Now()); d == limits.Granted || d == limits.Uncounted {
						o.granted[i]++
					} else {
						o.refused[i]++
					}
					slowest = max(slowest, time.Since(before))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			o.slowest = max(o.slowest, slowest)
		})
	}
	tasks.Wait()
	o.took = time.Since(start)
	return o
}

func steadily(rates ...float64) func(time.Duration) []float64 {
	return func(time.Duration) []float64 { return rates }
}

// commands are how many commands Redis has served, by name; those that scripts
// call are among them.
func commands(t *testing.T, rdb *redis.Client) map[string]int {
	t.Helper()
	info, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		if counts[name], err = strconv.Atoi(number); err != nil {
			t.Fatal(err)
		}
	}
	return counts
}

// Three gateways together keep a rate of 10,000 calls a second within 5 %, however
// the calls are spread over them, with one command to Redis for 20 calls at most.
func TestSharedRate(t *testing.T) { // not parallel: it takes what processors there are
	const limit = 10_000
	spec := limits.Spec{Calls: limit, Burst: limit, Per: time.Second}
	for name, tc := range map[string]struct {
		rates func(time.Duration) []float64
		want  float64
	}{
		"0.9 times":         {steadily(3000, 3000, 3000), 9000},
		"1.5 times":         {steadily(5000, 5000, 5000), limit},
		"3 times, uneven":   {steadily(28_000, 1500, 500), limit},
		"1.5 times, at one": {steadily(15_000, 0, 0), limit},
		"3 times, changing": {func(since time.Duration) []float64 {
			all := []float64{1000, 1000, 1000}
			all[int(since/(400*time.Millisecond))%3] = 28_000
			return all
		}, limit},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, redistest.Options{})
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
			defer rdb.Close()
			l := startLimiters(t, server.Addr, 3, config.Limiting{})
			key := limits.Key{App: "acme"}
			l.offer(2500*time.Millisecond, key, spec, tc.rates) // what may come at once is used up
			before := commands(t, rdb)
			o := l.offer(5*time.Second, key, spec, tc.rates)
			after := commands(t, rdb)
			granted, all := o.sum()
			asked, inside := 0, 0
			for name, n := range after {
				switch name {
				case "evalsha", "eval":
					asked += n - before[name]
				case "get", "set", "time":
					inside += n - before[name]
				}
			}
			got := float64(granted) / o.took.Seconds()
			t.Logf("%.0f/s went on of %.0f/s, %v; a command for %d calls, one of a script's for %d; no decision took longer than %v",
				got, float64(all)/o.took.Seconds(), o.granted, all/max(1, asked), all/max(1, inside), o.slowest)
			if math.Abs(got-tc.want) > tc.want/20 {
				t.Errorf("%.0f calls/s went on, want %.0f", got, tc.want)
			}
			if all < 20*(asked+inside) {
				t.Errorf("%d commands for %d calls", asked+inside, all)
			}
		})
	}
}

// A Redis that is gone keeps no call waiting. What becomes of calls meanwhile is as
// configured, and soon after it is back the limit is shared again.
func TestSharedRateWithoutRedis(t *testing.T) {
	const limit = 3000
	spec := limits.Spec{Calls: limit, Burst: limit, Per: time.Second}
	load := steadily(3000, 3000, 3000)
	for _, down := range []string{"local", "open", "closed"} {
		for fault, f := range map[string]struct{ fail, mend func(*redistest.Server) }{
			"killed":  {(*redistest.Server).Kill, (*redistest.Server).Restart},
			"stopped": {(*redistest.Server).Pause, (*redistest.Server).Resume},
			"full": {
				func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "1") },
				func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "0") },
			},
			"read only": {
				func(s *redistest.Server) { s.Do("REPLICAOF", "127.0.0.1", "1") },
				func(s *redistest.Server) { s.Do("REPLICAOF", "NO", "ONE") },
			},
		} {
			if down != "local" && (fault == "full" || fault == "read only") {
				continue // what is done of a failure is one thing, and what fails another
			}
			t.Run(down+" "+fault, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, redistest.Options{})
				l := startLimiters(t, server.Addr, 3, config.Limiting{StoreDown: down})
				key := limits.Key{App: "acme"}
				l.offer(2*time.Second, key, spec, load)
				f.fail(server)
				l.offer(1500*time.Millisecond, key, spec, load) // until it is noticed
				o := l.offer(2*time.Second, key, spec, load)
				granted, all := o.sum()
				f.mend(server)
				switch rate := float64(granted) / o.took.Seconds(); {
				case down == "local" && math.Abs(rate-limit) > limit/10,
					down == "open" && granted < all,
					down == "closed" && granted > 0:
					t.Errorf("%.0f calls/s went on", rate)
				}
				if o.slowest > 100*time.Millisecond {
					t.Errorf("a decision took %v", o.slowest)
				}
				l.offer(2500*time.Millisecond, key, spec, load) // it is back, and a restarted one has a whole burst
				o = l.offer(2*time.Second, key, spec, load)
				granted, _ = o.sum()
				if rate := float64(granted) / o.took.Seconds(); math.Abs(rate-limit) > limit/10 {
					t.Errorf("%.0f calls/s went on with Redis back, want %d", rate, limit)
				}
			})
		}
	}
}

// A script that Redis has forgotten, and data that it has lost, are nothing that a
// call would see.
func TestSharedRateOverAFlush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	l := startLimiters(t, server.Addr, 3, config.Limiting{StoreDown: "closed"})
	spec := limits.Spec{Calls: 3000, Burst: 3000, Per: time.Second}
	key := limits.Key{App: "acme"}
	load := steadily(500, 500, 500)
	l.offer(time.Second, key, spec, load)
	server.Do("SCRIPT", "FLUSH")
	server.Do("FLUSHALL")
	o := l.offer(time.Second, key, spec, load)
	if granted, all := o.sum(); granted < all {
		t.Errorf("%d of %d calls went on", granted, all)
	}
}

// Rates and quotas need no right but to keys with the configured prefix.
func TestSharedLimitsWithAnACLUser(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	server.Do("ACL", "SETUSER", "gateway", "on", ">pw", "~rpcgate:*", "&rpcgate:*", "+@all", "-@dangerous", "-@admin")
	l := startLimiters(t, server.Addr, 2, config.Limiting{StoreDown: "closed"}, func(c *config.Redis) { c.Username, c.Password = "gateway", "pw" })
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer rdb.Close()
	seen := map[string]bool{}
	for _, key := range []limits.Key{
		{App: "acme"}, {App: "acme", Whose: limits.OfToken, Name: "t1"}, {App: "acme", Period: limits.Daily}, {App: "acme", Period: limits.Monthly},
		{App: "acme", Whose: limits.OfRoute, Name: "shop.OrderService/GetOrder"}, {Whose: limits.OfRoute, Name: "a.B/C"},
	} {
		spec := limits.Spec{Calls: 5000, Burst: 5000}
		if key.Period == limits.Rate {
			spec.Per = time.Second
		}
		o := l.offer(400*time.Millisecond, key, spec, steadily(500, 500))
		if granted, all := o.sum(); granted < all || all == 0 {
			t.Errorf("%+v: %d of %d calls went on", key, granted, all)
		}
		all, err := rdb.Keys(t.Context(), "*").Result() // now: those of rates are gone once they say nothing
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range all {
			seen[k] = true
		}
	}
	keys := strings.Join(slices.Sorted(maps.Keys(seen)), " ")
	for _, want := range []string{
		"rpcgate:{acme}:rate:app:5000-5000-1s", "rpcgate:{acme}:rate:token:t1:", "rpcgate:{acme}:quota:" + time.Now().UTC().Format("20060102") + ":app",
		"rpcgate:{acme}:quota:" + time.Now().UTC().Format("200601") + ":app", "rpcgate:{acme}:rate:route:shop.OrderService/GetOrder:", "rpcgate:{}:rate:route:a.B/C:",
	} {
		if !strings.Contains(keys, want) {
			t.Errorf("there is no key %s: %s", want, keys)
		}
	}
}

// A quota is used up once, over all gateways, and what was bought and not used by
// the stop is given back, so that the counter is exact.
func TestSharedQuota(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	l := startLimiters(t, server.Addr, 3, config.Limiting{})
	key, spec := limits.Key{App: "acme", Period: limits.Daily}, limits.Spec{Calls: 10_000, Burst: 10_000}
	counter := "rpcgate:{acme}:quota:" + time.Now().UTC().Format("20060102") + ":app"
	granted, _ := l.offer(2*time.Second, key, spec, steadily(1000, 100, 10)).sum()
	for _, stop := range l.stop {
		stop()
	}
	if counted := server.Do("HGET", counter, "calls"); counted != strconv.Itoa(granted) {
		t.Errorf("%s calls are counted, and %d went on", counted, granted)
	}
	l = startLimiters(t, server.Addr, 3, config.Limiting{})
	more, _ := l.offer(4*time.Second, key, spec, steadily(3000, 3000, 300)).sum()
	if all := granted + more; all < 9900 || all > 10_100 {
		t.Errorf("%d calls of a quota of 10,000 went on", all)
	}
	gatewaytest.Eventually(t, func() error {
		for _, limiter := range l.each {
			if left := limiter.Find(key, spec).View(limiter.Now()); left.Remaining > 0 {
				return fmt.Errorf("%d are left", left.Remaining)
			}
		}
		return nil
	})
}

// What goes on while Redis does not answer is counted once by a quota, although
// nobody can tell which of the questions of that time it will act on.
func TestSharedQuotaOverAPause(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	l := startLimiters(t, server.Addr, 2, config.Limiting{})
	key, spec := limits.Key{App: "acme", Period: limits.Daily}, limits.Spec{Calls: 1_000_000, Burst: 1_000_000}
	counter := "rpcgate:{acme}:quota:" + time.Now().UTC().Format("20060102") + ":app"
	var pausing sync.WaitGroup
	defer pausing.Wait()
	time.AfterFunc(time.Second, server.Pause)
	pausing.Add(1)
	time.AfterFunc(5*time.Second, func() { defer pausing.Done(); server.Resume() })
	granted, _ := l.offer(7*time.Second, key, spec, steadily(500, 300)).sum()
	for _, stop := range l.stop {
		stop()
	}
	if counted := server.Do("HGET", counter, "calls"); counted != strconv.Itoa(granted) {
		t.Errorf("%s calls are counted, and %d went on", counted, granted)
	}
}
