package rpcproxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

func TestToldDeadline(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		left, step, want time.Duration
	}{
		"a multiple":        {2 * time.Second, 5 * ms, 2 * time.Second},
		"rounded up":        {1995*ms - 17*time.Microsecond, 5 * ms, 1995 * ms},
		"an odd step":       {10 * ms, 3 * ms, 12 * ms},
		"no step":           {1234567, 0, 1234567},
		"too fine a step":   {1234567, time.Microsecond - 1, 1234567},
		"a step with rests": {1234567, time.Microsecond + 1, 1235 * time.Microsecond},
		"passed":            {-ms, 5 * ms, -ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(tt.left))
				defer cancel()
				deadline, ok := (&attemptContext{Context: ctx, step: tt.step}).Deadline()
				if got := time.Until(deadline); !ok || got != tt.want {
					t.Errorf("told %v, %v; want %v", got, ok, tt.want)
				}
			})
		})
	}
	if deadline, ok := (&attemptContext{Context: t.Context(), step: ms}).Deadline(); ok {
		t.Errorf("told %v where there is no deadline", deadline)
	}
}

// What the backend is told repeats from call to call, though the calls take
// their time to be sent.
func TestBackendIsToldATimeoutThatRepeats(t *testing.T) {
	told := make(chan string, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Get("Grpc-Timeout")
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "5")
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	b := newBackend(t, srv.Listener.Addr().String(), func(c *config.Backend) {
		c.Timeout, c.DeadlineReserve = 90*time.Second, 22500*time.Millisecond
	}, Options{})
	// Between the deadline's reading and the sending the time goes on, by less
	// than grpc-timeout's microsecond but for a call that was interrupted there.
	const calls, whole = 10, "67500000u"
	repeated := 0
	for range calls {
		if _, err := unary(t.Context(), b, app("a"), "x"); status.Code(err) != codes.NotFound {
			t.Fatalf("got %v, want the status NOT_FOUND", err)
		}
		switch got := <-told; {
		case got == whole:
			repeated++
		case got > whole || len(got) != len(whole):
			t.Errorf("told %s, want at most %s", got, whole)
		}
	}
	if repeated < calls/2 {
		t.Errorf("%d of %d calls told %s", repeated, calls, whole)
	}
}
