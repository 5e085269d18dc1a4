package rpcproxy

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// sickGroup is a backend of three endpoints, the first of which fails while sick.
type sickGroup struct {
	*Backend

	sick   atomic.Bool
	served [3]atomic.Int64
	log    lockedBuffer
	reg    *prometheus.Registry
}

// lockedBuffer is a bytes.Buffer for many goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func startSickGroup(t *testing.T, change func(*config.Backend)) *sickGroup {
	t.Helper()
	g := &sickGroup{reg: prometheus.NewRegistry()}
	var addresses []string
	for i := range g.served {
		addresses = append(addresses, serve(t, answerWith(func(context.Context) (string, error) {
			g.served[i].Add(1)
			if i == 0 && g.sick.Load() {
				return "", status.Error(codes.Unavailable, "sick")
			}
			return "well", nil
		})).addr)
	}
	g.Backend = newBackend(t, addresses[0], func(cfg *config.Backend) {
		cfg.Endpoints = addresses
		cfg.Balancer.Policy = "round_robin"
		cfg.Ejection.BaseTime = 50 * time.Millisecond
		change(cfg)
	}, Options{Logger: slog.New(slog.NewTextHandler(&g.log, nil)), Registerer: g.reg})
	waitFor(t, "each endpoint to serve", func() bool {
		if _, err := unary(testContext(t), g.Backend, Credential{}, "x"); err != nil {
			t.Fatal(err)
		}
		return g.served[0].Load() > 0 && g.served[1].Load() > 0 && g.served[2].Load() > 0
	})
	return g
}

// view is the first endpoint as the backend shows it.
func (g *sickGroup) view(t *testing.T) fleet.EndpointView {
	t.Helper()
	all := g.Endpoints(testContext(t))
	if len(all) != 3 {
		t.Fatalf("%d endpoints are shown", len(all))
	}
	return all[0]
}

// A sick endpoint is ejected, tried out, and back when it is well; log, metrics
// and view tell of it.
func TestSickEndpointIsEjectedAndComesBack(t *testing.T) {
	g := startSickGroup(t, func(cfg *config.Backend) { cfg.Retry.MaxAttempts, cfg.Breaker.Kind = 1, "off" })
	g.sick.Store(true)
	failed := 0
	waitFor(t, "the endpoint to be ejected", func() bool {
		if _, err := unary(testContext(t), g.Backend, Credential{}, "x"); err != nil {
			failed++
		}
		return g.view(t).State == fleet.StateEjected
	})
	if failed < 5 {
		t.Errorf("it was ejected after %d failures", failed)
	}
	if v := g.view(t); !strings.HasPrefix(v.Reason, "consecutive_failures: 5 failures in a row") && !strings.HasPrefix(v.Reason, "failed_trial") ||
		v.NextProbe == nil || v.EjectedAt == nil || v.Connections != 1 {
		t.Errorf("it is shown as %+v", v)
	}
	// It gets trials alone.
	g.served[0].Store(0)
	for range 300 {
		_, _ = unary(testContext(t), g.Backend, Credential{}, "x")
	}
	if n := g.served[0].Load(); n > 30 {
		t.Errorf("the ejected endpoint got %d of 300 calls", n)
	}
	g.sick.Store(false)
	waitFor(t, "the endpoint to be back", func() bool {
		_, _ = unary(testContext(t), g.Backend, Credential{}, "x")
		return g.view(t).State == fleet.StateOK
	})
	if text := g.log.String(); !strings.Contains(text, "endpoint is ejected") || !strings.Contains(text, "endpoint is back") ||
		!strings.Contains(text, "reason=consecutive_failures") {
		t.Errorf("the log has\n%s", text)
	}
	if n := testutil.ToFloat64(g.metrics.fleets.ejections.WithLabelValues("test", "consecutive_failures")); n < 1 {
		t.Errorf("%v ejections are counted", n)
	}
	err := testutil.GatherAndCompare(g.reg, strings.NewReader(`
# HELP rpcgate_endpoints Endpoints that discovery tells of, by state: ok, slow_start (new), ejected, unhealthy (by its own word), unreachable (no connection), unused (not in this gateway's subset).
# TYPE rpcgate_endpoints gauge
rpcgate_endpoints{backend="test",state="ejected"} 0
rpcgate_endpoints{backend="test",state="ok"} 3
rpcgate_endpoints{backend="test",state="slow_start"} 0
rpcgate_endpoints{backend="test",state="unhealthy"} 0
rpcgate_endpoints{backend="test",state="unreachable"} 0
rpcgate_endpoints{backend="test",state="unused"} 0
# HELP rpcgate_endpoints_panic 1 while so few endpoints are usable that calls go to all of them.
# TYPE rpcgate_endpoints_panic gauge
rpcgate_endpoints_panic{backend="test"} 0
`), "rpcgate_endpoints", "rpcgate_endpoints_panic")
	if err != nil {
		t.Error(err)
	}
}

// An endpoint that fails, calls that succeed elsewhere in a second attempt: the
// endpoint is ejected, and to the breaker each of the calls was a success.
func TestBreakerAndEjectionAgree(t *testing.T) {
	g := startSickGroup(t, func(cfg *config.Backend) {
		cfg.Retry.Budget.MinPerSecond = 1000
		cfg.Breaker.Kind = "threshold"
		cfg.Breaker.Threshold.ConsecutiveFailures = 1
		cfg.Ejection.BaseTime = time.Minute
	})
	g.sick.Store(true)
	for range 40 {
		err := g.Forward(testContext(t), &Request{Method: testMethod, Idempotent: true}, &exchange{requests: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if v := g.view(t); v.State != fleet.StateEjected {
		t.Errorf("the endpoint is %+v", v)
	}
	for _, b := range g.Breakers() {
		if b.Window.Failures > 0 {
			t.Errorf("to the breaker %d calls failed", b.Window.Failures)
		}
	}
}

func TestFleetLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m, err := newMetrics(nil)
		if err != nil {
			t.Fatal(err)
		}
		e := newFleetEvents("test", slog.New(slog.NewTextHandler(&log, nil)), m)
		for range 1000 {
			e.note(fleet.Event{Kind: fleet.Ejected, Address: "a:1", Reason: fleet.Latency})
			e.note(fleet.Event{Kind: fleet.Readmitted, Address: "a:1"})
		}
		for range 1000 { // health that flaps, after the lines about single endpoints are used up
			e.note(fleet.Event{Kind: fleet.PanicBegan, Usable: 1, Endpoints: 9})
			e.note(fleet.Event{Kind: fleet.PanicEnded, Usable: 3, Endpoints: 9})
		}
		if n := strings.Count(log.String(), "\n"); n != 2*gateLines {
			t.Errorf("%d lines were logged in a second", n)
		}
		if !strings.Contains(log.String(), "usable=1 endpoints=9") {
			t.Errorf("the log has\n%s", log.String())
		}
		time.Sleep(time.Second)
		e.note(fleet.Event{Kind: fleet.Readmitted, Address: "a:1"})
		e.note(fleet.Event{Kind: fleet.PanicEnded, Usable: 3, Endpoints: 9})
		if n := strings.Count(log.String(), "suppressed=1990"); n != 2 {
			t.Errorf("%d lines tell how many there would have been:\n%s", n, log.String())
		}
		if n := testutil.ToFloat64(m.fleets.ejections.WithLabelValues("test", "latency")); n != 1000 {
			t.Errorf("%v ejections are counted", n)
		}
	})
}
