package integration_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// The budget of a backend whose calls all fail.
const (
	budgetRatio  = 0.2
	budgetMin    = 3 // a second
	stormBackend = `
		timeout: 5s
		breaker: {kind: off}
		retry: {max_attempts: 5, backoff: 1ms, max_backoff: 5ms, budget: {ratio: 0.2, min_per_second: 3}}
		ejection: {consecutive_failures: 3, base_time: 100ms}`
	stormRoutes = "routes:\n  - {method: testbackend.Echo/Unary, idempotent: true}\n"
)

// With every endpoint down, all calls may be repeated and none succeeds. What
// comes to the backends grows by no more than the retry budget: a fifth of the
// calls, or three a second.
func TestRetriesMakeNoStorm(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	var came atomic.Int64
	b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		came.Add(1)
		s.Forget()
		return status.Error(codes.Unavailable, "down")
	})
	r := newRig(t, echoConfig(b, stormBackend)+stormRoutes+quiet)
	began := time.Now()
	callers := newLoad(t)
	callers.add(8, r.invoking(r.conn))
	callers.add(8, r.echoing())
	stays(t, 3*time.Second, func() error { return nil })
	callers.stop()
	took := time.Since(began).Seconds()
	calls := sum(callers.reasons())
	if callers.succeeded() > 0 || calls < 500 {
		t.Fatalf("%d calls succeeded, %d failed", callers.succeeded(), calls)
	}
	most := float64(calls)*(1+budgetRatio) + budgetMin*(took+1)
	if n := came.Load(); float64(n) > most {
		t.Errorf("%d attempts came of %d calls in %.1fs, the budget is %.0f", n, calls, took, most)
	} else if float64(n) < float64(calls)*(1+budgetRatio/2) {
		t.Errorf("%d attempts came of %d calls: most of the budget was not used", n, calls)
	}
}

// Endpoints that refuse or cut off connections see no more of them because more
// calls fail: how often a connection is tried is the pause's matter, not the
// callers'.
func TestDeadEndpointsAreNotHammered(t *testing.T) {
	t.Parallel()
	var listener net.ListenConfig
	lis, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var came atomic.Int64
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := lis.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				came.Add(1)
				_ = conn.Close()
			}
		}
	}()
	t.Cleanup(func() { _ = lis.Close(); <-accepting })

	r := beforeLedgers(t, nil, stormBackend+"\nconn: {max_backoff: 500ms}", lis.Addr().String())
	callers := newLoad(t)
	callers.add(16, r.looking())
	stays(t, 3*time.Second, func() error { return nil })
	callers.stop()
	callers.only("BACKEND_UNREACHABLE", "DEADLINE_EXCEEDED")
	if n := sum(callers.reasons()); n < 100 {
		t.Fatalf("%d calls failed", n)
	}
	// At a pause of half a second, less its jitter of a fifth, and the short
	// pauses at the beginning.
	if n := came.Load(); n > 20 {
		t.Errorf("%d connections in 3s", n)
	}
}
