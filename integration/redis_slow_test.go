package integration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/faultproxy"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

// However slow Redis is, and however many wait for it: a call whose credential is
// remembered waits for nothing, neither while it is fresh nor when its time ends.
func TestRememberedNeverWaitForASlowRedis(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		latency, jitter time.Duration
		answers         bool // within the limit of a look-up
	}{
		{500 * time.Millisecond, 0, true},
		{600 * time.Millisecond, 300 * time.Millisecond, true},
		{5 * time.Second, 0, false},
	} {
		t.Run(fmt.Sprint(tc.latency, " ± ", tc.jitter), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			network := faultproxy.Start(t, "127.0.0.1:0", server.Addr)
			at := singleAt(server.Addr) // the store's way is fast
			at.yaml = fmt.Sprintf("addresses: [%q], read_timeout: 1s, pool_size: 4", network.Addr)
			g := startTenants(t, at, "auth: {cache: {ttl: 2s, stale: 10m}}\n")
			idle := g.issue(t, "idle")
			must(t, g.with(idle))
			network.Delay(tc.latency, tc.jitter)
			waits := g.Metric("rpcgate_cache_requests_total", "cache", "credentials", "result", "miss")

			callers := startLoad(t, 3, g.echoing())
			// More strangers than there are connections.
			strangers := newLoad(t)
			for i := range 12 {
				strangers.add(1, g.echoingAs("nobody", madeUpToken(100+i)))
			}
			began := time.Now()
			gatewaytest.Eventually(t, func() error { // through more than two lives of what is remembered
				if since := time.Since(began); since < 5*time.Second {
					return fmt.Errorf("%v so far", since)
				}
				return nil
			})
			must(t, g.with(idle))                       // not used for longer than its time
			comesTo(t, g.with(g.gone), "TOKEN_REVOKED") // before strangers leave a connection for it, it is not known
			strangers.stop()
			callers.neverWait(t)
			waits = g.Metric("rpcgate_cache_requests_total", "cache", "credentials", "result", "miss") - waits
			if made := len(strangers.failed) + strangers.ok; int(waits) > made {
				t.Errorf("%v calls waited for a look-up, of %d strangers'", waits, made)
			}
			for reason := range strangers.reasons() {
				if reason != "AUTH_UNAVAILABLE" && reason != "TOKEN_INVALID" && reason != "RATE_LIMITED" {
					t.Errorf("strangers' calls ended with %s", reason)
				}
			}
			if got := g.call200(t, g.with(g.issue(t, "late"))); got != tc.answers {
				t.Errorf("a credential that was never seen is served: %v", got)
			}
			if got := g.readyz(); got != 200 {
				t.Errorf("/readyz answers %d", got)
			}
		})
	}
}

// call200 tells whether one of a few calls succeeds.
func (g *tenants) call200(t testing.TB, call callFunc) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	for range 5 {
		switch got := reasonFor(call(ctx)); got {
		case "OK":
			return true
		case "AUTH_UNAVAILABLE":
		default:
			t.Fatalf("the call ended with %s", got)
		}
	}
	return false
}
