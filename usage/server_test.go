package usage_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/usage"
)

// limit is how long a test waits for what must come, on the busiest machine.
const limit = time.Minute

func open(t *testing.T, cfg config.Redis) redis.UniversalClient {
	t.Helper()
	rdb, err := auth.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// impatient are time limits that a paused server runs into at once.
func impatient(addr string) config.Redis {
	return config.Redis{
		Addresses: []string{addr}, PoolSize: 4,
		DialTimeout: 200 * time.Millisecond, ReadTimeout: 100 * time.Millisecond, WriteTimeout: 100 * time.Millisecond,
	}
}

func patient(addr string) config.Redis {
	return config.Redis{Addresses: []string{addr}, PoolSize: 4, DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit}
}

var keys = tenant.KeysOf(config.Auth{})

// run runs a flusher of counts. stop ends it, after its last flush.
func run(t *testing.T, counts *usage.Counts, rdb redis.UniversalClient, interval time.Duration, reg prometheus.Registerer) (stop func()) {
	t.Helper()
	f, err := usage.NewFlusher(counts, rdb, keys, config.Usage{Interval: interval, Keep: 48 * time.Hour}, usage.FlusherOptions{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

// read sums up what an app used yesterday, today and tomorrow: a test may run at
// midnight.
func read(t *testing.T, rdb redis.UniversalClient, app string) (sum usage.Used, rows []usage.Row) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	now := time.Now()
	rows, err := usage.Read(ctx, rdb, keys, app, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		sum.Calls += r.Calls
		sum.CallerFailures += r.CallerFailures
		sum.GatewayFailures += r.GatewayFailures
		sum.BackendFailures += r.BackendFailures
		sum.BytesIn += r.BytesIn
		sum.BytesOut += r.BytesOut
	}
	return sum, rows
}

// Redis is paused, killed and restarted while two gateways flush what they count
// of the same apps. In the end Redis has exactly what was counted.
func TestFaultsOfRedisNeitherDoubleNorLose(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Persist: true})
	const gateways, apps = 2, 20
	all := make([]*usage.Counts, gateways)
	regs := make([]*prometheus.Registry, gateways)
	var stops []func()
	for i := range all {
		all[i], regs[i] = usage.NewCounts(), prometheus.NewRegistry()
		stops = append(stops, run(t, all[i], open(t, impatient(server.Addr)), 20*time.Millisecond, regs[i]))
	}
	var counting sync.WaitGroup
	over := make(chan struct{})
	counted := make([]int64, gateways)
	for i, counts := range all {
		counting.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				case <-tick.C:
				}
				for app := range apps {
					counts.Count("app"+strconv.Itoa(app), "GET /"+strconv.Itoa(n%7), usage.Blame(n%4), 3, 5)
				}
				counted[i]++
			}
		})
	}
	between := time.NewTicker(150 * time.Millisecond)
	defer between.Stop()
	for range 5 {
		<-between.C
		server.Pause()
		<-between.C
		server.Resume()
		<-between.C
		server.Kill()
		<-between.C
		server.Restart()
	}
	close(over)
	counting.Wait()
	deadline := time.Now().Add(limit)
	for _, reg := range regs {
		for gauge(t, reg, "rpcgate_usage_unflushed_calls") > 0 {
			if time.Now().After(deadline) {
				t.Fatal("what was counted is not flushed")
			}
			<-between.C
		}
	}
	for _, stop := range stops {
		stop()
	}
	rdb := open(t, patient(server.Addr))
	var want int64
	for _, n := range counted {
		want += n
	}
	for app := range apps {
		got, _ := read(t, rdb, "app"+strconv.Itoa(app))
		if got.Calls != want || got.BytesIn != 3*want || got.BytesOut != 5*want {
			t.Errorf("app%d: %+v, want %d calls", app, got, want)
		}
	}
	if n := gauge(t, regs[0], "rpcgate_usage_flush_failures_total"); n == 0 {
		t.Error("no flush failed: the test shows nothing")
	}
}

// gauge gives a metric without labels.
func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestTheLastFlushComesAtTheEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	rdb := open(t, patient(server.Addr))
	counts := usage.NewCounts()
	stop := run(t, counts, rdb, time.Hour, nil)
	counts.Count("acme", "GET /v1/users/{id}", usage.Caller, 1, 2)
	counts.Count("acme", "/shop.UserService/GetUser", usage.Nobody, 1, 2)
	stop()
	_, rows := read(t, rdb, "acme")
	if len(rows) != 2 || rows[0].Route != "/shop.UserService/GetUser" || rows[1].Route != "GET /v1/users/{id}" || rows[1].CallerFailures != 1 {
		t.Errorf("rows %+v", rows)
	}
	today := time.Now().UTC()
	key := keys.Usage("acme", rows[0].Day.Format("20060102"))
	if left := rdb.PTTL(t.Context(), key).Val(); left < 47*time.Hour || left > 48*time.Hour {
		t.Errorf("%s is kept for %v, want 48h", key, left)
	}
	if _, rows := read(t, rdb, "nobody"); len(rows) != 0 {
		t.Errorf("an app that is not known has %v", rows)
	}
	if rows, err := usage.Read(t.Context(), rdb, keys, "acme", today.AddDate(-1, 0, 0), today); err != nil || len(rows) == 0 {
		t.Errorf("a year gives %v, %v", rows, err)
	}
}

// A user of Redis that may use the prefix alone can flush, also after Redis has
// forgotten its scripts; and one app's damaged key keeps nothing of the others'.
func TestFlushesNeedNoMoreThanThePrefix(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	admin := open(t, patient(server.Addr))
	if err := admin.Do(t.Context(), "acl", "setuser", "gate", "on", ">pw", "~rpcgate:*", "&rpcgate:*", "+@all", "-@dangerous").Err(); err != nil {
		t.Fatal(err)
	}
	cfg := patient(server.Addr)
	cfg.Username, cfg.Password = "gate", "pw"
	rdb := open(t, cfg)
	day := time.Now().UTC()
	for i := -1; i <= 1; i++ {
		admin.Set(t.Context(), keys.Usage("damaged", day.AddDate(0, 0, i).Format("20060102")), "no hash", 0)
	}
	for round := range 2 {
		counts := usage.NewCounts()
		stop := run(t, counts, rdb, time.Hour, nil)
		for _, app := range []string{"a", "damaged", "z"} {
			counts.Count(app, "GET /", usage.Nobody, 0, 0)
		}
		stop()
		for _, app := range []string{"a", "z"} {
			if sum, _ := read(t, rdb, app); sum.Calls != int64(round+1) {
				t.Errorf("round %d: app %s has %d calls, want %d", round, app, sum.Calls, round+1)
			}
		}
		admin.ScriptFlush(t.Context())
	}
}
