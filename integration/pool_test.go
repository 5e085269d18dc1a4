package integration_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// connCounter counts a backend's connections.
type connCounter struct{ open, made atomic.Int64 }

func (c *connCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (c *connCounter) HandleRPC(context.Context, stats.RPCStats)                         {}
func (c *connCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *connCounter) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		c.open.Add(1)
		c.made.Add(1)
	case *stats.ConnEnd:
		c.open.Add(-1)
	}
}

// seenConns records over which connections a backend was called with which
// credential.
type seenConns struct {
	mu    sync.Mutex
	conns map[string]map[string]bool // the caller's address to app and token, quoted
}

// watchConns has a backend's Echo/Unary record who calls over what.
func watchConns(b *testbackend.Server) *seenConns {
	s := &seenConns{conns: map[string]map[string]bool{}}
	b.Handle("Echo/Unary", func(stream *testbackend.Stream) error {
		from, _ := peer.FromContext(stream.Context())
		md, _ := metadata.FromIncomingContext(stream.Context())
		who := fmt.Sprintf("%q %q", md.Get("app"), md.Get("token"))
		s.mu.Lock()
		if s.conns[from.Addr.String()] == nil {
			s.conns[from.Addr.String()] = map[string]bool{}
		}
		s.conns[from.Addr.String()][who] = true
		s.mu.Unlock()
		msg, err := stream.Recv()
		if err != nil {
			return err
		}
		return stream.Send(msg)
	})
	return s
}

// sharing returns how many connections carried calls, and the credentials of
// those that carried more than one.
func (s *seenConns) sharing() (conns int, shared []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, who := range s.conns {
		if len(who) > 1 {
			shared = append(shared, fmt.Sprint(who))
		}
	}
	return len(s.conns), shared
}

// goZeroRig is a gateway that reads zRPC's tokens, from one hash: app to token.
func goZeroRig(t *testing.T, tokens map[string]string, configText string) *rig {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	rdb := redisClient(t, server.Addr)
	if err := rdb.HSet(t.Context(), "rpc:auth", tokens).Err(); err != nil {
		t.Fatal(err)
	}
	r := &rig{redis: server}
	for r.app, r.token = range tokens {
		break
	}
	r.start(t, "", configText+"auth: {gozero: {key: rpc:auth}}\n")
	return r
}

// lookUps is how many look-ups Redis has served, from whichever layout.
func lookUps(t testing.TB, rdb *redis.Client) int {
	t.Helper()
	text, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range regexp.MustCompile(`cmdstat_(hmget|hget):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		calls, _ := strconv.Atoi(m[2])
		if m[1] == "hmget" {
			calls /= 2 // a token and its app
		}
		n += calls
	}
	return n
}

// However many callers come at once with a credential that was never seen, one
// look-up and one connection are made for them.
func TestConcurrentFirstCallsShareLookUpAndConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	conns := new(connCounter)
	b := testbackend.Start(t, grpc.StatsHandler(conns))
	r := startRig(t, server, fmt.Sprintf("addresses: [%q], read_timeout: 20s", server.Addr),
		echoConfig(b, "timeout: 30s")+"auth: {cache: {load_timeout: 20s}}\n"+quiet)
	rdb := redisClient(t, server.Addr)
	if got := conns.open.Load(); got != 1 { // reflection's
		t.Fatalf("%d connections before the first call", got)
	}
	before := lookUps(t, rdb)

	const callers = 200
	server.Pause() // so that all of them wait for one look-up
	done := make(chan error, callers)
	for i := range callers {
		call := r.invoking(r.conn)
		if i%2 == 0 {
			call = r.posting(r.http2, r.app, r.token, "/v1/echo", `{"text": "hello"}`)
		}
		go func() { done <- call(limited(t)) }()
	}
	r.awaitMetric(t, callers, "rpcgate_calls_in_flight")
	server.Resume()
	for range callers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := lookUps(t, rdb) - before; got != 1 {
		t.Errorf("%d look-ups in Redis, want 1", got)
	}
	if got := r.Metric("rpcgate_pool_dials_total"); got != 2 {
		t.Errorf("%v connections were dialled, want 2: reflection's and the credential's", got)
	}
	if got := conns.made.Load(); got != 2 {
		t.Errorf("the backend saw %d connections, want 2", got)
	}
}

// Credentials that are one text when they are joined are still two.
func TestCredentialsNeverShareAConnection(t *testing.T) {
	t.Parallel()
	tokens := map[string]string{
		"a": "b/c", "a-b": "c", "a_b": "c", "ab": "c", "a-": "b-c", "a_": "b_c", "A": "b/c",
		"a--b": "c", "a-b-": "c", "b": "a-b-c", "a-b-c": "-", "aa": "/", "aaa": ":a", "aaaa": "b/c",
	}
	b := testbackend.Start(t)
	seen := watchConns(b)
	r := goZeroRig(t, tokens, echoConfig(b, "")+quiet)
	var calls []callFunc
	for app, token := range tokens {
		call := r.invokingAs(app, token)
		must(t, call)
		calls = append(calls, call, r.echoingAs(app, token))
	}
	callers := startLoad(t, 1, calls...)
	callers.awaitMore(20 * len(calls))
	callers.stop()
	callers.only()
	conns, shared := seen.sharing()
	if conns != len(tokens) {
		t.Errorf("%d connections for %d credentials", conns, len(tokens))
	}
	for _, who := range shared {
		t.Errorf("a connection carried %s", who)
	}
}

// invokingAs calls Echo/Unary over gRPC with a credential.
func (r *rig) invokingAs(app, token string) callFunc {
	other := &rig{app: app, token: token}
	return other.invoking(r.conn)
}

// pool.key says who shares; each call has its own caller's credential still.
func TestPoolKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int{"credential": 4, "app": 2, "shared": 1} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			b := testbackend.Start(t)
			seen := watchConns(b)
			r := newRig(t, echoConfig(b, "pool: {key: "+key+"}"))
			var calls []callFunc
			tokens := map[string]bool{}
			for _, app := range []string{"one", "two"} {
				for range 2 {
					token := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: app}).Secret
					tokens[fmt.Sprintf("%q %q", []string{app}, []string{token})] = true
					calls = append(calls, r.echoingAs(app, token), r.invokingAs(app, token))
				}
			}
			callers := startLoad(t, 2, calls...)
			callers.awaitMore(100)
			callers.stop()
			callers.only()
			if conns, _ := seen.sharing(); conns != want {
				t.Errorf("%d connections, want %d", conns, want)
			}
			for from, who := range seen.conns {
				for w := range who {
					if !tokens[w] {
						t.Errorf("over %s the backend saw %s", from, w)
					}
				}
			}
		})
	}
}

func TestPoolIsBoundedUnder3000Credentials(t *testing.T) {
	t.Parallel()
	const credentials, bound, callers = 3000, 32, 8
	tokens := map[string]string{}
	for i := range credentials {
		tokens[fmt.Sprintf("app%d", i)] = fmt.Sprintf("token-%d", i)
	}
	conns := new(connCounter)
	b := testbackend.Start(t, grpc.StatsHandler(conns))
	r := goZeroRig(t, tokens, echoConfig(b, fmt.Sprintf("pool: {max_conns: %d}", bound))+quiet)

	next := make(chan string, credentials)
	for app := range maps.Keys(tokens) {
		next <- app
	}
	close(next)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for app := range next {
				if err := r.invokingAs(app, tokens[app])(limited(t)); err != nil {
					t.Errorf("app %s: %v", app, err)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	var most float64
	watch := time.NewTicker(20 * time.Millisecond)
	defer watch.Stop()
	for running := true; running; {
		select {
		case <-over:
			running = false
		case <-watch.C:
			most = max(most, r.Metric("rpcgate_pool_conns"))
		}
	}
	if most > 2*bound {
		t.Errorf("there were %v connections at once, the bound is %d", most, bound)
	}
	if got := r.Metric("rpcgate_pool_conns", "state", "live"); got > bound {
		t.Errorf("%v connections live, the bound is %d", got, bound)
	}
	gatewaytest.Eventually(t, func() error {
		if got := conns.open.Load(); got > bound {
			return fmt.Errorf("%d connections are open at the backend, the bound is %d", got, bound)
		}
		return nil
	})
}

// Making room takes the connection from nobody who uses it.
func TestEvictionBreaksNoCall(t *testing.T) {
	t.Parallel()
	tokens := map[string]string{}
	for i := range 10 {
		tokens[fmt.Sprintf("app%d", i)] = fmt.Sprintf("token-%d", i)
	}
	b := testbackend.Start(t)
	r := goZeroRig(t, tokens, echoConfig(b, "pool: {max_conns: 8}")+quiet)
	var calls []callFunc
	for app, token := range tokens {
		calls = append(calls, r.invokingAs(app, token))
	}
	stream := rawStream(t, r.limited(t), r.conn, echoBidi)
	echoes(t, stream)
	callers := startLoad(t, 1, calls...)
	callers.awaitMore(800)
	callers.stop()
	callers.only()
	echoes(t, stream)
	if got := r.Metric("rpcgate_pool_retired_total", "reason", "evicted"); got < 50 {
		t.Errorf("only %v connections were evicted: not much of a test", got)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	conns := new(connCounter)
	b := testbackend.Start(t, grpc.StatsHandler(conns))
	r := newRig(t, echoConfig(b, "pool: {idle_timeout: 300ms}"))
	stream := rawStream(t, r.limited(t), r.conn, echoBidi)
	echoes(t, stream)
	other := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "other"}).Secret
	must(t, r.echoingAs("other", other))

	r.awaitMetric(t, 1, "rpcgate_pool_conns") // a call in flight is use
	gatewaytest.Eventually(t, func() error {
		if got := conns.open.Load(); got != 1 {
			return fmt.Errorf("%d connections are open at the backend, want the stream's", got)
		}
		return nil
	})
	echoes(t, stream)
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	r.awaitMetric(t, 0, "rpcgate_pool_conns")
	must(t, r.echoingAs("other", other))
}

// A credential's first call after a long time has everything to do anew: to ask
// Redis, find the backend and connect. 250 ms are enough for that.
func TestFault12FirstCallAfterIdle(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]struct {
		settings string // of the backend's pool
		server   keepalive.ServerParameters
		over     func(conns *connCounter, made int64) bool
	}{
		"the gateway closed the connection": {
			settings: "pool: {idle_timeout: 100ms}",
			over:     func(conns *connCounter, _ int64) bool { return conns.open.Load() == 0 },
		},
		"the backend closed the connection": {
			server: keepalive.ServerParameters{MaxConnectionIdle: 100 * time.Millisecond},
			over:   func(conns *connCounter, made int64) bool { return conns.made.Load() > made+1 }, // reflection's, too
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conns := new(connCounter)
			b := testbackend.Start(t, grpc.StatsHandler(conns), grpc.KeepaliveParams(idle.server))
			r := newRig(t, echoConfig(b, idle.settings)+"auth: {cache: {ttl: 50ms, stale: 0s}}\n")
			must(t, r.echoing())
			must(t, r.invoking(r.conn))
			for range 5 {
				made := conns.made.Load()
				gatewaytest.Eventually(t, func() error {
					if !idle.over(conns, made) {
						return fmt.Errorf("%d connections are open", conns.open.Load())
					}
					return nil
				})
				inAQuietMoment(t, func() error {
					ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
					defer cancel()
					return r.invoking(r.conn)(ctx)
				})
			}
		})
	}
}

// inAQuietMoment fails the test with the error of do, unless the machine itself
// stood still for a good part of the time: then do is done again.
func inAQuietMoment(t *testing.T, do func() error) {
	t.Helper()
	const attempts = 20
	for attempt := 1; ; attempt++ {
		stop, stood := make(chan struct{}), make(chan time.Duration)
		go func() { stood <- longestPause(stop) }()
		err := do()
		close(stop)
		pause := <-stood
		if err == nil {
			return
		}
		if pause < 50*time.Millisecond || attempt == attempts {
			t.Fatal(err)
		}
		t.Logf("again, as the machine stood still for %v: %v", pause, err)
	}
}

// longestPause is the longest time for which this process did not get to run.
func longestPause(stop <-chan struct{}) (longest time.Duration) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-stop:
			return longest
		case <-tick.C:
		}
		now := time.Now()
		longest = max(longest, now.Sub(last))
		last = now
	}
}

// An endpoint that goes away takes its connections with it, and the next call
// makes new ones, also where the backend's process ends them with a reset.
func TestConnectionResetByTheBackendIsMadeAnew(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	network := startProxy(t, b.Addr)
	r := newRig(t, strings.ReplaceAll(echoConfig(b, ""), b.Addr, network.Addr))
	must(t, r.echoing())
	for range 5 {
		network.Cut()
		network.Mend()
		comesTo(t, r.echoing(), "OK")
	}
}
