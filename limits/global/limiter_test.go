package global

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a limiter before a Redis of its own; stop ends it.
func start(t *testing.T, cfg config.Limiting, o Options) (l *Limiter, server *miniredis.Miniredis, stop func()) {
	t.Helper()
	server = miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	l, err := New(rdb, config.Auth{KeyPrefix: "gw"}, cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		_ = rdb.Close()
	})
	t.Cleanup(stop)
	return l, server, stop
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for tick := time.NewTicker(time.Millisecond); !check(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come about that %s", what)
		}
	}
}

var hourly = limits.Spec{Calls: 100, Burst: 100, Per: time.Hour} //nolint:gochecknoglobals // a constant

// How many limits are remembered is bounded; one that makes room pays what it owes,
// and whoever holds it hears that it is not to be used any more.
func TestEviction(t *testing.T) {
	t.Parallel()
	const most = 32
	l, server, _ := start(t, config.Limiting{}, Options{Limits: most})
	spec := limits.Spec{Calls: 1000, Burst: 1000}
	key := limits.Key{App: "first", Period: limits.Daily}
	first := l.Find(key, spec)
	for range 7 {
		first.Take(l.Now())
	}
	for i := range 50 * most {
		l.Find(limits.Key{App: strconv.Itoa(i)}, hourly)
		l.mu.Lock()
		n := len(l.known)
		l.mu.Unlock()
		if n > most {
			t.Fatalf("%d limits are remembered, want %d at most", n, most)
		}
	}
	if !first.Retired() {
		t.Fatal("the first of them is still in use")
	}
	if l.Find(key, spec) == first {
		t.Error("it is found again")
	}
	counter := l.keys.Quota("first", time.Now().UTC().Format("20060102"), "app")
	eventually(t, "its calls are counted", func() bool { got := server.HGet(counter, "calls"); return got == "7" })
}

// One that is used is not the one that makes room.
func TestEvictionSparesWhatIsUsed(t *testing.T) {
	t.Parallel()
	l, _, _ := start(t, config.Limiting{}, Options{Limits: 8})
	used := l.Find(limits.Key{App: "used"}, hourly)
	for i := range 7 {
		l.Find(limits.Key{App: strconv.Itoa(i)}, hourly)
	}
	for range 3 {
		used.Take(l.Now())
		l.sweep()
	}
	for i := range 4 {
		used.Take(l.Now())
		l.Find(limits.Key{App: "new" + strconv.Itoa(i)}, hourly)
	}
	if used.Retired() {
		t.Error("it was given up while others were idle")
	}
}

// What was taken is paid by the stop at the latest, and what was bought given back.
func TestStopSettles(t *testing.T) {
	t.Parallel()
	l, server, stop := start(t, config.Limiting{Gateways: 3}, Options{})
	key := limits.Key{App: "acme", Period: limits.Monthly}
	a := l.Find(key, limits.Spec{Calls: 1_000_000, Burst: 1_000_000})
	n := 0
	eventually(t, "calls are bought ahead", func() bool {
		for range 100 {
			a.Take(l.Now())
			n++
		}
		return a.Stock() > 0
	})
	stop()
	if got := server.HGet(l.keys.Quota("acme", time.Now().UTC().Format("200601"), "app"), "calls"); got != strconv.Itoa(n) {
		t.Errorf("%s calls are counted, want %d", got, n)
	}
}

// Stock that lies idle goes back, so that other gateways have it.
func TestIdleStockGoesBack(t *testing.T) {
	t.Parallel()
	l, _, _ := start(t, config.Limiting{Gateways: 3}, Options{})
	a := l.Find(limits.Key{App: "acme"}, limits.Spec{Calls: 1000, Burst: 1000, Per: time.Second})
	eventually(t, "calls are bought ahead", func() bool {
		for range 10 {
			a.Take(l.Now())
		}
		return a.Stock() > 0
	})
	eventually(t, "they are given back", func() bool { return a.Stock() == 0 })
}

// Redis that fails is told once, in the log, and by metrics.
func TestStoreState(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	l, server, _ := start(t, config.Limiting{}, Options{Registerer: reg})
	a := l.Find(limits.Key{App: "acme"}, limits.Spec{Calls: 1000, Burst: 1000, Per: time.Second})
	up := func(want string) func() bool {
		return func() bool {
			a.Take(l.Now())
			err := testutil.GatherAndCompare(reg, strings.NewReader("# HELP rpcgate_limits_store_up 1 while Redis answers questions for rates and quotas.\n# TYPE rpcgate_limits_store_up gauge\nrpcgate_limits_store_up "+want+"\n"), "rpcgate_limits_store_up")
			return err == nil
		}
	}
	server.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	eventually(t, "the store is down", up("0"))
	server.SetError("")
	eventually(t, "it is up again", up("1"))
	if n := testutil.ToFloat64(l.metrics.asks.WithLabelValues("failed")); n < 1 {
		t.Errorf("%v failures are counted", n)
	}
}

// A quota's counter: what was made is counted in any case, what is bought only as
// far as there is, and what is given back is not counted any more.
func TestQuotaScript(t *testing.T) {
	t.Parallel()
	l, server, _ := start(t, config.Limiting{}, Options{})
	key := limits.Key{App: "acme", Period: limits.Daily}
	spec := limits.Spec{Calls: 10, Burst: 10}
	for i, tc := range []struct{ pay, buy, given, left int64 }{
		{3, 4, 7, 3}, {0, 5, 3, 0}, {2, 5, 2, -2}, {0, -4, -4, 2}, {0, 0, 0, 2}, {0, -50, -50, 10},
	} {
		q := limits.Question{Spec: spec, At: time.Duration(i), Settles: tc.buy < 0}
		for range 2 { // an answer may get lost, and the question come again
			a, err := l.askQuota(t.Context(), key, "20260102", tc.pay*limits.Unit, tc.buy*limits.Unit, q)
			if err != nil {
				t.Fatal(err)
			}
			if a.Given != tc.given*limits.Unit || a.Left != float64(tc.left*limits.Unit) {
				t.Errorf("%d: %d were given and %v are left, want %d and %d", i, a.Given/limits.Unit, a.Left/limits.Unit, tc.given, tc.left)
			}
		}
	}
	if ttl := server.TTL("gw:{acme}:quota:20260102:app"); ttl != keepDaily {
		t.Errorf("the counter is kept for %v", ttl)
	}
}

// The keys of rates begin with the prefix, and give a changed rate another bucket.
func TestRateKeys(t *testing.T) {
	t.Parallel()
	l, server, _ := start(t, config.Limiting{}, Options{})
	for _, spec := range []limits.Spec{{Calls: 5, Burst: 5, Per: time.Minute}, {Calls: 7, Burst: 9, Per: time.Minute}} {
		if _, err := l.ask(t.Context(), limits.Key{App: "acme", Whose: limits.OfToken, Name: "t1"}, limits.Question{Pay: limits.Unit, Spec: spec}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(server.Keys(), " "); got != "gw:{acme}:rate:token:t1:5-5-1m0s gw:{acme}:rate:token:t1:7-9-1m0s" {
		t.Errorf("the keys are %s", got)
	}
}

// A queue asks a few questions at a time, and none after it is closed.
func TestQueue(t *testing.T) {
	t.Parallel()
	release, began := make(chan struct{}), make(chan struct{}, 100)
	q := queue{serve: func(context.Context, *limit) {
		began <- struct{}{}
		<-release
	}}
	q.add(&limit{}) // before it runs
	q.open(t.Context())
	for range 3 * asksAtOnce {
		q.add(&limit{})
	}
	for range asksAtOnce {
		<-began
	}
	q.mu.Lock()
	working, left := q.working, len(q.waiting)
	q.mu.Unlock()
	if working != asksAtOnce || left != 2*asksAtOnce+1 {
		t.Errorf("%d are asked and %d wait", working, left)
	}
	done := make(chan struct{})
	go func() {
		q.close()
		close(done)
	}()
	eventually(t, "it is closing", func() bool { q.mu.Lock(); defer q.mu.Unlock(); return q.ctx == nil })
	close(release)
	<-done
	if n := len(began); n != 0 {
		t.Errorf("%d more were asked", n)
	}
}

var errAny = errors.New("any") //nolint:gochecknoglobals // a constant

func TestRefillOutcomes(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.asked(limits.Question{Pay: 1, Buy: 1}, limits.Answer{Given: 2}, nil)
	m.asked(limits.Question{Pay: 1, Buy: 1}, limits.Answer{Given: 1}, nil)
	m.asked(limits.Question{Buy: -1}, limits.Answer{Given: -1}, nil)
	m.asked(limits.Question{}, limits.Answer{}, errAny)
	for _, outcome := range []string{"given", "short", "returned", "failed"} {
		if n := testutil.ToFloat64(m.asks.WithLabelValues(outcome)); n != 1 {
			t.Errorf("%s is counted %v times", outcome, n)
		}
	}
}
