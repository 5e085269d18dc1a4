package integration_test

import (
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
	"github.com/rpcgate/rpcgate/usage"
)

// used is what Redis says that an app used, by route and in all. A test may run at
// midnight.
func used(t *testing.T, redis, app string) (routes map[string]usage.Used, calls int64) {
	t.Helper()
	cfg := config.Defaults()
	cfg.Redis.Addresses = []string{redis}
	rdb, err := auth.Open(cfg.Redis)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	now := time.Now()
	rows, err := usage.Read(limited(t), rdb, tenant.KeysOf(cfg.Auth), app, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	routes = map[string]usage.Used{}
	for _, row := range rows {
		routes[row.Route] = row.Used
		calls += row.Calls
	}
	return routes, calls
}

func TestUsageIsCountedByRouteAndBlame(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "usage: {interval: 1m}\nlimits: {app: {max_body: 1KiB}}\n")
	b.Handle("Echo/ServerStream", func(*testbackend.Stream) error { return status.Error(codes.Internal, "broken") })
	r.call(t, "POST", "/v1/echo", `{"text":"0123456789"}`).ok(t, "")
	r.call(t, "POST", "/v1/echo", `{"text":`)
	r.call(t, "POST", "/v1/echo", `{"text":"`+string(make([]byte, 2000))+`"}`)
	r.call(t, "GET", "/v1/echo:stream", "")
	if _, err := invoke(r.limited(t), r.conn, unaryEcho, []byte("\x0a\x01x")); err != nil {
		t.Fatal(err)
	}
	r.do(t, r.http1, "GET", "/v1/echo", "", "Authorization", "Bearer "+r.app+"."+madeUpToken(1)) // nobody's
	if code := r.Stop(); code != 0 {
		t.Fatalf("exit status %d", code)
	}
	routes, calls := used(t, r.redis.Addr, r.app)
	if calls != 5 {
		t.Errorf("%d calls, want 5: %+v", calls, routes)
	}
	if got := routes["POST /v1/echo"]; got.Calls != 3 || got.CallerFailures != 2 || got.BytesIn != 12 || got.BytesOut != 12 {
		t.Errorf("POST /v1/echo: %+v", got)
	}
	if got := routes["GET /v1/echo:stream"]; got.Calls != 1 || got.BackendFailures != 1 {
		t.Errorf("GET /v1/echo:stream: %+v", got)
	}
	if got := routes[unaryEcho]; got != (usage.Used{Calls: 1, BytesIn: 3, BytesOut: 3}) {
		t.Errorf("%s: %+v", unaryEcho, got)
	}
}

// A gateway that is killed loses what it counted since its last flush, and another
// goes on from there. Of two gateways the calls add up.
func TestUsageOutlivesAKilledGateway(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	text := echoConfig(b, "") + "usage: {interval: 100ms}\n"
	r := newRig(t, text)
	other := gatewaytest.Serve(t, "redis: {addresses: [\""+r.redis.Addr+"\"]}\n"+text)
	second := &rig{Gateway: other, redis: r.redis, app: r.app, token: r.token, http1: r.http1, http2: r.http2}
	const certain, doubtful = 40, 20
	for range certain {
		r.call(t, "GET", "/v1/echo", "").ok(t, "")
		second.call(t, "GET", "/v1/echo", "").ok(t, "")
	}
	gatewaytest.Eventually(t, func() error {
		if _, calls := used(t, r.redis.Addr, r.app); calls != 2*certain {
			return status.Errorf(codes.Unknown, "%d calls in Redis, want %d", calls, 2*certain)
		}
		return nil
	})
	for range doubtful {
		r.call(t, "GET", "/v1/echo", "").ok(t, "")
	}
	r.Kill()
	for range certain {
		second.call(t, "GET", "/v1/echo", "").ok(t, "")
	}
	if code := other.Stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	_, calls := used(t, r.redis.Addr, r.app)
	if calls < 3*certain || calls > 3*certain+doubtful {
		t.Errorf("%d calls in Redis, want %d to %d", calls, 3*certain, 3*certain+doubtful)
	}
}

func TestUsageMayBeOff(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "usage: {interval: 0s}\nmetrics: {apps: [acme]}\n")
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
	r.do(t, r.http1, "GET", "/v1/echo", "").failed(t, http.StatusUnauthorized, codes.Unauthenticated, "CREDENTIAL_MISSING")
	if n := r.Metric("rpcgate_app_calls_total", "app", "acme", "outcome", "success"); n != 1 {
		t.Errorf("%v calls of the app that is named, want 1", n)
	}
	if code := r.Stop(); code != 0 {
		t.Fatalf("exit status %d", code)
	}
	if routes, _ := used(t, r.redis.Addr, r.app); len(routes) != 0 {
		t.Errorf("usage was counted: %+v", routes)
	}
}
