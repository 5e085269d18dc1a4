package rpcproxy

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := serve(t, answerWith(func(context.Context) (string, error) { return "", status.Error(codes.Internal, "sick") }))
	b := newBackend(t, s.addr, thresholdBreaker, Options{Registerer: reg})
	for range 7 { // of which two are refused
		_, _ = unary(testContext(t), b, app("a"), "x")
	}
	b.Revoke("a", "")
	_, _ = unary(testContext(t), b, app("b"), "x") // refused
	_, release, err := b.AcquireShared(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	want := `
# HELP rpcgate_attempts_total Attempts to call a backend that ended, by the code they ended with.
# TYPE rpcgate_attempts_total counter
rpcgate_attempts_total{backend="test",code="INTERNAL",method="/test.Service/Method"} 5
# HELP rpcgate_breaker_rejections_total Calls that the breaker of a method refused.
# TYPE rpcgate_breaker_rejections_total counter
rpcgate_breaker_rejections_total{backend="test",method="/test.Service/Method"} 3
# HELP rpcgate_breaker_state How much the breaker of a method refuses: 0 nothing (closed), 1 some calls (half open), 2 nearly all (open). With scope app it is that of the app that fares worst.
# TYPE rpcgate_breaker_state gauge
rpcgate_breaker_state{backend="test",method="/test.Service/Method"} 2
# HELP rpcgate_breaker_open_apps How many apps have calls of a method refused by a breaker of their own.
# TYPE rpcgate_breaker_open_apps gauge
rpcgate_breaker_open_apps{backend="test",method="/test.Service/Method"} 0
# HELP rpcgate_breaker_transitions_total How often breakers of a method changed by themselves, by the state that they changed to.
# TYPE rpcgate_breaker_transitions_total counter
rpcgate_breaker_transitions_total{backend="test",method="/test.Service/Method",to="open"} 1
# HELP rpcgate_pool_conns Connections of a backend: live ones take calls, draining ones wait for their last calls to end.
# TYPE rpcgate_pool_conns gauge
rpcgate_pool_conns{backend="test",state="draining"} 0
rpcgate_pool_conns{backend="test",state="live"} 1
# HELP rpcgate_pool_dials_total Connections that were made for a credential, by result: ok or error.
# TYPE rpcgate_pool_dials_total counter
rpcgate_pool_dials_total{backend="test",result="error"} 0
rpcgate_pool_dials_total{backend="test",result="ok"} 2
# HELP rpcgate_pool_retired_total Connections that were taken out of use, by reason: evicted, idle, revoked or shutdown.
# TYPE rpcgate_pool_retired_total counter
rpcgate_pool_retired_total{backend="test",reason="evicted"} 0
rpcgate_pool_retired_total{backend="test",reason="idle"} 0
rpcgate_pool_retired_total{backend="test",reason="revoked"} 1
rpcgate_pool_retired_total{backend="test",reason="shutdown"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "rpcgate_attempts_total",
		"rpcgate_breaker_rejections_total", "rpcgate_breaker_state", "rpcgate_breaker_open_apps", "rpcgate_breaker_transitions_total", "rpcgate_pool_conns",
		"rpcgate_pool_dials_total", "rpcgate_pool_retired_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(reg, "rpcgate_attempt_duration_seconds"); err != nil || n != 1 {
		t.Errorf("%d histograms, %v", n, err)
	}
}

// A reload makes the new backend before the old one of the same name is closed.
func TestMetricsOverAReload(t *testing.T) {
	reg := prometheus.NewRegistry()
	first := newBackend(t, "127.0.0.1:1", nil, Options{Registerer: reg})
	newBackend(t, "127.0.0.1:1", nil, Options{Registerer: reg})
	newBackend(t, "127.0.0.1:1", func(c *config.Backend) { c.Name = "other" }, Options{Registerer: reg})
	for range 2 {
		if n, err := testutil.GatherAndCount(reg, "rpcgate_pool_conns"); err != nil || n != 4 {
			t.Errorf("%d gauges, %v, want 4", n, err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A reload that is refused closes the backend that it made, and the one in force
// is still there.
func TestMetricsOverARefusedReload(t *testing.T) {
	reg := prometheus.NewRegistry()
	newBackend(t, "127.0.0.1:1", nil, Options{Registerer: reg})
	refused := newBackend(t, "127.0.0.1:1", nil, Options{Registerer: reg})
	if err := refused.Close(); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(reg, "rpcgate_pool_conns"); err != nil || n != 2 {
		t.Errorf("%d gauges, %v, want 2", n, err)
	}
}

func TestMetricsCodesAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := newMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	method, err := newMethods(config.DefaultBackend("b"), m, slog.New(slog.DiscardHandler)).get("/s/M")
	if err != nil {
		t.Fatal(err)
	}
	for code := range codes.Code(1000) {
		method.count(code, 1)
	}
	if n, err := testutil.GatherAndCount(reg, "rpcgate_attempts_total"); err != nil || n != codeCount {
		t.Errorf("%d series, %v, want %d", n, err, codeCount)
	}
}
