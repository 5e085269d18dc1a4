package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// A backend that answers nothing takes as many calls as it may have, and neither
// the gateway's memory nor the calls to another backend: what is beyond is refused
// at once, with its body unread.
func TestStoppedBackendIsBusy(t *testing.T) {
	t.Parallel()
	const limit, flood = 20, 300
	shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
	b := testbackend.Start(t)
	r := newRig(t, fmt.Sprintf(`backends:
  - name: shop
    endpoints: [%q]
    reflection: true
    timeout: 15s
    breaker: {kind: "off"}
    concurrency: {max_calls: %d}
`, shop.Addr, limit)+strings.TrimPrefix(echoConfig(b, ""), "backends:\n")+quiet)
	must(t, r.echoing())
	must(t, r.shopping())
	before := r.footprint(t)
	shop.Pause()
	t.Cleanup(shop.Resume)
	good := startLoad(t, 2, r.echoing(), r.invoking(r.conn))

	body := `{"name": "` + strings.Repeat("x", 1<<20) + `"}`
	var mu sync.Mutex
	ended := map[string]int{}
	busy := func() int {
		mu.Lock()
		defer mu.Unlock()
		return ended["BACKEND_BUSY"]
	}
	var calls sync.WaitGroup
	for range flood {
		calls.Go(func() {
			why := reasonFor(r.posting(r.http2, r.app, r.token, "/v1/users", body)(t.Context()))
			mu.Lock()
			defer mu.Unlock()
			ended[why]++
		})
	}
	gatewaytest.Eventually(t, func() error {
		if n := busy(); n < flood-limit {
			return fmt.Errorf("%d of %d calls are refused", n, flood)
		}
		return nil
	})
	if n := r.Metric("rpcgate_backend_calls_in_flight", "backend", "shop"); n > limit {
		t.Errorf("%v calls to the stopped backend are in flight", n)
	}
	if grown := r.footprint(t).heap - before.heap; grown > (limit+40)<<20 {
		t.Errorf("the heap has grown by %.0f MiB", grown/(1<<20))
	}
	a := r.do(t, r.http1, "POST", "/v1/users", `{"name": "Ada"}`, "Authorization", r.bearer())
	a.failed(t, http.StatusServiceUnavailable, codes.ResourceExhausted, "BACKEND_BUSY")
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	shop.Resume()
	calls.Wait()
	if ended["BACKEND_BUSY"]+ended["OK"] != flood {
		t.Errorf("the calls ended with %v", ended)
	}
	comesTo(t, r.shopping(), "OK")
	good.stop()
	good.only()
	if good.slowest > 2*slack {
		t.Errorf("a call to the other backend took %v", good.slowest)
	}
}

// sheddingRig is a gateway with few calls in flight, of which Echo/Bidi takes as
// long as it likes, and two apps.
func sheddingRig(t *testing.T, overload string) (r *rig, b *testbackend.Server, other string) {
	t.Helper()
	b = testbackend.Start(t)
	r = newRig(t, "overload: "+overload+"\n"+echoConfig(b, "timeout: 20s\nbreaker: {kind: \"off\"}")+`routes:
  - {method: testbackend.Echo/ServerStream, priority: low}
  - {method: testbackend.Admin/GetResource, priority: high}
`+quiet)
	return r, b, issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "other"}).Secret
}

// An app that fills its share of the calls in flight is refused; another's go
// through as long as they have room by their priority; health and the operators'
// port always answer. When the flood ends, so does it all.
func TestFloodingAppIsShed(t *testing.T) {
	t.Parallel()
	r, b, other := sheddingRig(t, "{max_calls: 60}")
	over := make(chan struct{})
	b.Handle("Echo/Bidi", func(*testbackend.Stream) error {
		<-over
		return nil
	})
	must(t, r.echoing())
	must(t, r.echoingAs("other", other))
	low := r.streaming("other", other)
	must(t, low)

	// Streams of the flooding app, until no more are let through.
	conn := dial(t, r.GRPC)
	held, hangUp := context.WithCancel(r.limited(t))
	defer hangUp()
	refused := make(chan error, 1)
	var streams sync.WaitGroup
	for range 100 {
		s := rawStream(t, held, conn, echoBidi)
		streams.Go(func() {
			if _, err := s.recv(); reasonFor(err) == "OVERLOADED" {
				select {
				case refused <- err:
				default:
				}
			}
		})
	}
	grpcFailed(t, waitFor(t, refused, "a refusal"), codes.ResourceExhausted, "OVERLOADED")
	gatewaytest.Eventually(t, func() error {
		if n := r.Metric("rpcgate_calls_shed_total", "reason", "share", "priority", "normal"); n < 40 {
			return fmt.Errorf("%v calls are shed", n)
		}
		return nil
	})
	a := r.call(t, "POST", "/v1/echo", `{"text": "hello"}`)
	a.failed(t, http.StatusServiceUnavailable, codes.ResourceExhausted, "OVERLOADED")
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	ends(t, low, "OVERLOADED")
	for range 50 {
		must(t, r.echoingAs("other", other))
	}
	must(t, r.getting("/admin/A")) // the flooding app's own, of high priority
	for range 20 {
		r.AdminGet("/healthz") // fails the test unless it is 200
		if _, err := healthpb.NewHealthClient(conn).Check(limited(t), &healthpb.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	r.WaitLog("calls are shed")

	close(over)
	streams.Wait()
	comesTo(t, r.echoing(), "OK")
	must(t, low)
}

// streaming calls Echo/ServerStream, which is of low priority in a sheddingRig.
func (r *rig) streaming(app, token string) callFunc {
	return r.posting(r.http1, app, token, "/testbackend.Echo/ServerStream", "{}")
}

// Calls that wait because the gateway has more to do than it can are shed, of the
// app that makes most of them; when they end, nothing is shed.
func TestQueueingIsShed(t *testing.T) {
	t.Parallel()
	// Next to no CPU is enough to count as used up here, so that it does not hang
	// on what else the machine does.
	r, _, other := sheddingRig(t, "{cpu: 0.05, queue_delay: 1ms}")
	must(t, r.echoing())
	must(t, r.echoingAs("other", other))
	polite := newLoad(t)
	polite.add(1, r.echoingAs("other", other))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var flood sync.WaitGroup
	for range 8 {
		client := httpClient(t, true)
		for range 100 {
			flood.Go(func() {
				for ctx.Err() == nil {
					_ = r.posting(client, r.app, r.token, "/v1/echo", `{"text": "hello"}`)(ctx)
				}
			})
		}
	}
	shed := func() float64 {
		return r.Metric("rpcgate_calls_shed_total", "reason", "queue_delay", "priority", "normal")
	}
	gatewaytest.Eventually(t, func() error {
		if n := shed(); n < 1000 {
			return fmt.Errorf("%v calls are shed", n)
		}
		return nil
	})
	polite.awaitMore(50)
	stop()
	flood.Wait()
	polite.stop()
	if failed := polite.reasons()["OVERLOADED"]; failed > polite.succeeded()/4 {
		t.Errorf("of the other app's calls %d are served and %d shed", polite.succeeded(), failed)
	}
	comesTo(t, r.echoing(), "OK")
	gatewaytest.Eventually(t, func() error {
		if n := r.Metric("rpcgate_overload_admitted_ratio"); n != 1 {
			return fmt.Errorf("%v of the calls are admitted", n)
		}
		return nil
	})
}

// Others that use up the machine's processors keep a gateway from nothing but
// their time: no call is shed for it.
func TestNeighboursAreNotOverload(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, "overload: {queue_delay: 1ms}\n"+echoConfig(b, "timeout: 20s")+quiet)
	must(t, r.echoing())
	for range 8 {
		burner := exec.CommandContext(t.Context(), "/bin/sh", "-c", "while :; do :; done")
		if err := burner.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = burner.Process.Kill()
			_ = burner.Wait()
		})
	}
	l := newLoad(t)
	l.add(1, r.echoing())
	began := time.Now()
	l.awaitMore(100)
	gatewaytest.Eventually(t, func() error {
		if since := time.Since(began); since < 3*time.Second {
			return fmt.Errorf("only %v", since)
		}
		return nil
	})
	l.stop()
	l.only()
}
