package integration_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// footprint is what a flood must not make grow.
type footprint struct {
	heap       float64 // after a collection of garbage
	goroutines float64
	conns      float64
	redisKeys  int64
}

func (r *rig) footprint(t testing.TB) footprint {
	t.Helper()
	rdb := redisClient(t, r.redis.Addr)
	keys := int64(0)
	all := rdb.Scan(t.Context(), 0, "", 1000).Iterator()
	for all.Next(t.Context()) {
		if !strings.Contains(all.Val(), ":usage:") { // the good callers' is written down while they call
			keys++
		}
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	r.AdminGet("/debug/pprof/heap?gc=1&debug=1") // collects garbage, too
	return footprint{
		heap: r.Metric("go_memstats_heap_alloc_bytes"), goroutines: r.Metric("go_goroutines"), redisKeys: keys,
		conns: r.Metric("rpcgate_pool_conns"),
	}
}

// awaitFootprint waits until all that a flood brought is gone, but for what
// pools of buffers and the like keep in memory.
func (r *rig) awaitFootprint(t testing.TB, before footprint) {
	t.Helper()
	const kept = 8 << 20
	gatewaytest.Eventually(t, func() error {
		now := r.footprint(t)
		switch {
		case now.redisKeys != before.redisKeys:
			return fmt.Errorf("Redis has %d keys, it had %d", now.redisKeys, before.redisKeys)
		case now.conns > before.conns:
			return fmt.Errorf("there are %v connections to backends, there were %v", now.conns, before.conns)
		case now.goroutines > before.goroutines+30: // for connections that callers keep open
			return fmt.Errorf("there are %v goroutines, there were %v", now.goroutines, before.goroutines)
		case now.heap > before.heap+kept:
			return fmt.Errorf("the heap has %.1f MiB, it had %.1f", now.heap/(1<<20), before.heap/(1<<20))
		}
		return nil
	})
}

// Whoever makes credentials up, well-formed or not, in either protocol, gets a
// 401 for each of them and nothing else: no memory, no connections, no keys in
// Redis, and no delay for the others.
func TestMadeUpCredentialsLeaveNothing(t *testing.T) {
	t.Parallel()
	const flood = 10_000
	b := testbackend.Start(t)
	r := newRig(t, echoConfig(b, "")+"auth: {cache: {negative_entries: 512}, guessing: {per_address: 0, per_app: 0}}\n"+quiet)
	must(t, r.echoing())
	must(t, r.invoking(r.conn))
	// What the first calls of the flooders' own connections cost.
	ends(t, r.posting(r.http2, "app", "nonsense", "/v1/echo", "{}"), "TOKEN_INVALID")
	before := r.footprint(t)
	b.Handle("Echo/Bidi", func(*testbackend.Stream) error { t.Error("a call got through"); return nil })
	good := startLoad(t, 2, r.echoing(), r.invoking(r.conn))

	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for n := next.Add(1); n <= flood; n = next.Add(1) {
				app := fmt.Sprintf("app%d", n)
				token := madeUpToken(int(n))
				if n%2 == 0 {
					token = "rpg_made_up_" + token[:20]
				}
				var call callFunc
				switch n % 3 {
				case 0:
					call = r.invokingAs(app, token)
				case 1:
					call = r.posting(r.http2, app, token, "/v1/echo", "{}")
				default:
					app = r.app // an app that is there
					call = r.posting(r.http2, app, token, "/v1/echo", "{}")
				}
				if got := reasonFor(call(t.Context())); got != "TOKEN_INVALID" {
					t.Errorf("credential %d: %s", n, got)
				}
			}
		})
	}
	wg.Wait()
	good.stop()
	good.only()
	if good.slowest > slack {
		t.Errorf("a good caller waited for %v", good.slowest)
	}
	if got := r.Metric("rpcgate_cache_entries", "kind", "negative"); got > 512 {
		t.Errorf("%v negative entries, the bound is 512", got)
	}
	r.awaitFootprint(t, before)
}

// Bodies are held in memory, up to their limit and not a byte of what is beyond.
func TestFloodOfLargeBodies(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, "http: {address: \"127.0.0.1:0\", max_body_size: 1MiB}\n"+echoConfig(b, "timeout: 20s")+quiet)
	must(t, r.echoing())
	before := r.footprint(t)
	good := startLoad(t, 2, r.echoing())

	const limit = 1 << 20
	frame := len(`{"text": ""}`)
	atLimit := `{"text": "` + strings.Repeat("x", limit-frame) + `"}`
	beyond := `{"text": "` + strings.Repeat("x", limit-frame+1) + `"}`
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				if got := reasonFor(r.posting(r.http1, r.app, r.token, "/v1/echo", atLimit)(t.Context())); got != "OK" {
					t.Errorf("a body at the limit: %s", got)
				}
				body := io.Reader(strings.NewReader(beyond))
				if i%2 == 0 {
					body = io.MultiReader(body) // of a length that is not known beforehand
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.HTTP+"/v1/echo", body)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", r.bearer())
				var refused *refusal
				if err := send(r.http2, req); !errors.As(err, &refused) || refused.Status != http.StatusRequestEntityTooLarge {
					t.Errorf("a body beyond the limit: %v", err)
				}
			}
		})
	}
	wg.Wait()
	good.stop()
	good.only()
	if got := r.liveHeap(); got > 96<<20 {
		t.Errorf("at the end the gateway has %d MiB of memory in use", got>>20)
	}
	r.awaitFootprint(t, before)
}

// slowCaller opens a connection and sends the beginning of a request.
func (r *rig) slowCaller(t testing.TB, beginning string) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", r.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, beginning); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Callers that send their headers or bodies drop by drop lose their connections,
// and nobody else notices them.
func TestSlowCallersAreSentAway(t *testing.T) {
	t.Parallel()
	const n = 300
	b := testbackend.Start(t)
	r := newRig(t, "http: {address: \"127.0.0.1:0\", read_header_timeout: 1s, body_timeout: 1s, idle_timeout: 1s}\n"+
		echoConfig(b, "")+quiet)
	must(t, r.echoing())
	before := r.footprint(t)
	good := startLoad(t, 2, r.echoing())
	type slow struct {
		conn     net.Conn
		drop     string
		statuses []int // what it may be told before the end; 0: nothing
	}
	var callers []slow
	post := "POST /v1/echo HTTP/1.1\r\nHost: x\r\nAuthorization: " + r.bearer() + "\r\n"
	for range n {
		callers = append(callers,
			slow{r.slowCaller(t, "GET /v1/echo HTTP/1.1\r\nHost: x\r\nX-Slow: "), "x", []int{0, 408}},
			slow{r.slowCaller(t, post+"Content-Length: 100\r\n\r\n{"), " ", []int{408}},
			slow{r.slowCaller(t, post+"Transfer-Encoding: chunked\r\n\r\n"), "1\r\n \r\n", []int{408}},
		)
	}
	var wg sync.WaitGroup
	for _, c := range callers {
		wg.Go(func() {
			over := make(chan struct{})
			var dripping sync.WaitGroup
			dripping.Go(func() {
				tick := time.NewTicker(200 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-over:
						return
					case <-tick.C:
						_, _ = io.WriteString(c.conn, c.drop)
					}
				}
			})
			_ = c.conn.SetReadDeadline(time.Now().Add(gatewaytest.Limit))
			got := 0
			if resp, err := http.ReadResponse(bufio.NewReader(c.conn), nil); err == nil {
				got = resp.StatusCode
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			} else if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a caller that sends %q was not sent away", c.drop)
			}
			close(over)
			dripping.Wait()
			ok := false
			for _, want := range c.statuses {
				ok = ok || got == want
			}
			if !ok {
				t.Errorf("a caller that sends %q got %d, want one of %v", c.drop, got, c.statuses)
			}
			_ = c.conn.Close()
		})
	}
	wg.Wait()
	good.stop()
	good.only()
	if good.slowest > 2*slack {
		t.Errorf("a good caller waited for %v", good.slowest)
	}
	r.awaitFootprint(t, before)
}

// Connections that carry nothing cost little, and are closed after a while.
func TestManyIdleConnections(t *testing.T) {
	t.Parallel()
	const n = 2000
	r, _ := newEchoRig(t, "", "http: {address: \"127.0.0.1:0\", read_header_timeout: 2s, idle_timeout: 2s}\n"+quiet)
	must(t, r.echoing())
	before := r.footprint(t)
	var conns []net.Conn
	for i := range n {
		beginning := "" // never a request
		if i%2 == 0 {
			beginning = "GET /v1/echo HTTP/1.1\r\nHost: x\r\n\r\n" // one, and then silence
		}
		conns = append(conns, r.slowCaller(t, beginning))
	}
	good := startLoad(t, 2, r.echoing(), r.invoking(r.conn))
	good.awaitMore(100)
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(gatewaytest.Limit))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("an idle connection stays open")
		}
	}
	good.stop()
	good.only()
	if good.slowest > 2*slack {
		t.Errorf("a good caller waited for %v", good.slowest)
	}
	r.awaitFootprint(t, before)
}

// Many calls that hang at one backend, up to its limit, leave the others alone.
func TestHangingBackendLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	slow := testbackend.Start(t)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	slow.Handle("Admin/GetResource", func(*testbackend.Stream) error {
		<-over // says nothing, not even that its time is up
		return nil
	})
	fast := testbackend.Start(t)
	text := strings.Replace(echoConfig(slow, "timeout: 1s\nbreaker: {kind: off}\nservices: [testbackend.Admin]"), "name: echo", "name: admin", 1) +
		strings.TrimPrefix(echoConfig(fast, "services: [testbackend.Echo]"), "backends:\n")
	r := newRig(t, text+quiet)
	must(t, r.echoing())
	good := startLoad(t, 2, r.echoing(), r.invoking(r.conn))
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.HTTP+"/admin/A", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", r.bearer())
			if got := reasonFor(send(r.http2, req)); got != "DEADLINE_EXCEEDED" {
				t.Errorf("a call that hangs ended with %s", got)
			}
		})
	}
	wg.Wait()
	good.stop()
	good.only()
	if good.slowest > 2*slack {
		t.Errorf("a call to another backend took %v", good.slowest)
	}
}

// A flood of credentials that were never seen, while Redis does not answer, is
// bounded by the number of look-ups: the known are served meanwhile.
func TestFloodWhileRedisIsPaused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	b := testbackend.Start(t)
	r := startRig(t, server, "", echoConfig(b, "")+"auth: {cache: {max_loads: 16, load_timeout: 500ms}}\n"+quiet)
	must(t, r.echoing())
	server.Pause()
	good := startLoad(t, 2, r.echoing(), r.invoking(r.conn))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for n := next.Add(1); n <= 2000; n = next.Add(1) {
				err := r.posting(r.http2, "nobody", madeUpToken(int(n)), "/v1/echo", "{}")(t.Context())
				if got := reasonFor(err); got != "AUTH_UNAVAILABLE" {
					t.Errorf("credential %d: %s", n, got)
				}
			}
		})
	}
	wg.Wait()
	good.stop()
	good.only()
	server.Resume()
	comesTo(t, r.echoingAs("nobody", madeUpToken(1)), "TOKEN_INVALID")
	a := r.do(t, r.http1, "GET", "/v1/echo", "")
	a.failed(t, http.StatusUnauthorized, codes.Unauthenticated, "CREDENTIAL_MISSING")
}
