package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// tellBudget makes the backend report how long it was given, 0 for no deadline.
func tellBudget(b *testbackend.Server, methods ...string) <-chan time.Duration {
	budgets := make(chan time.Duration, 1)
	for _, m := range methods {
		b.Handle(m, func(s *testbackend.Stream) error {
			var left time.Duration
			if deadline, ok := s.Context().Deadline(); ok {
				left = time.Until(deadline)
			}
			msg, err := s.Recv()
			if err != nil {
				return err
			}
			budgets <- left
			return s.Send(msg)
		})
	}
	return budgets
}

// Fault 7: a caller's timeout is honoured up to the route's limit, over both
// protocols; an absurd one is taken for a long one, a malformed one is refused.
func TestFault7Timeouts(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "timeout: 20s\nmethod_timeouts: {testbackend.Admin/GetResource: 10s}", `
routes:
  - {method: testbackend.Echo/ServerStream, timeout: 15s}
`)
	budgets := tellBudget(b, "Echo/Unary", "Echo/ServerStream", "Admin/GetResource")
	within := func(t *testing.T, limit time.Duration) {
		t.Helper()
		got := waitFor(t, budgets, "the backend's budget")
		if got <= limit/2 || got > limit {
			t.Errorf("the backend was given %v, want up to %v", got, limit)
		}
	}
	for _, tc := range []struct {
		name, header, value string
		want                time.Duration
	}{
		{"none", "X-Nothing", "", 20 * time.Second},
		{"shorter", "Grpc-Timeout", "5S", 5 * time.Second},
		{"in milliseconds", "Grpc-Timeout", "5000m", 5 * time.Second},
		{"longer than the limit", "Grpc-Timeout", "100S", 20 * time.Second},
		{"absurd", "Grpc-Timeout", "99999999H", 20 * time.Second},
		{"as a duration", "X-Request-Timeout", "4s", 4 * time.Second},
		{"as seconds", "X-Request-Timeout", "3.5", 3500 * time.Millisecond},
		{"absurd seconds", "X-Request-Timeout", "1e300", 20 * time.Second},
	} {
		t.Run("HTTP/"+tc.name, func(t *testing.T) {
			r.call(t, "GET", "/v1/echo", "", tc.header, tc.value).ok(t, "")
			within(t, tc.want)
		})
	}
	t.Run("HTTP/both", func(t *testing.T) {
		r.call(t, "GET", "/v1/echo", "", "Grpc-Timeout", "9S", "X-Request-Timeout", "5s").ok(t, "")
		within(t, 5*time.Second)
	})
	b.Take()
	for _, header := range [][]string{
		{"Grpc-Timeout", "soon"}, {"Grpc-Timeout", "5"}, {"Grpc-Timeout", "-5S"}, {"Grpc-Timeout", "123456789S"},
		{"Grpc-Timeout", "5s"}, {"Grpc-Timeout", ""}, {"Grpc-Timeout", "5S", "Grpc-Timeout", "6S"},
		{"X-Request-Timeout", "soon"}, {"X-Request-Timeout", "-1s"}, {"X-Request-Timeout", "NaN"},
	} {
		t.Run("HTTP/malformed", func(t *testing.T) {
			r.call(t, "GET", "/v1/echo", "", header...).failed(t, 400, codes.InvalidArgument, "BAD_TIMEOUT")
			untouched(t, b)
		})
	}

	for _, tc := range []struct {
		name, method    string
		timeout, expect time.Duration
	}{
		{"none", "Echo/Unary", 0, 20 * time.Second},
		{"shorter", "Echo/Unary", 5 * time.Second, 5 * time.Second},
		{"longer", "Echo/Unary", 100 * time.Second, 20 * time.Second},
		{"the method's", "Admin/GetResource", 0, 10 * time.Second},
		{"the route's", "Echo/ServerStream", 0, 15 * time.Second},
		{"shorter than the route's", "Echo/ServerStream", 5 * time.Second, 5 * time.Second},
	} {
		t.Run("gRPC/"+tc.name, func(t *testing.T) {
			ctx := r.as(t.Context())
			if tc.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.timeout)
				defer cancel()
			}
			if _, err := invoke(ctx, r.conn, "/testbackend."+tc.method, nil); err != nil {
				t.Fatal(err)
			}
			within(t, tc.expect)
		})
	}
}

// The time runs out: the caller is told so in time, and the backend's context
// ends; whose time it was makes no difference to the code.
func TestDeadlineRunsOut(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "method_timeouts: {testbackend.Admin/GetResource: 100ms, testbackend.Echo/ServerStream: 100ms}", "")
	expectEnd := func(t *testing.T, ended <-chan error) {
		t.Helper()
		// Which of them the backend sees first depends on whose timer it is.
		if err := waitFor(t, ended, "the end of the backend's context"); err == nil {
			t.Error("the backend's context goes on")
		}
	}
	t.Run("route, JSON", func(t *testing.T) {
		_, ended := holdCalls(b, "Admin/GetResource")
		r.call(t, "GET", "/admin/x", "").failed(t, 504, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
		expectEnd(t, ended)
	})
	t.Run("route, gRPC", func(t *testing.T) {
		_, ended := holdCalls(b, "Admin/GetResource")
		_, err := invoke(r.limited(t), r.conn, "/testbackend.Admin/GetResource", nil)
		grpcFailed(t, err, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
		expectEnd(t, ended)
	})
	t.Run("route, stream", func(t *testing.T) {
		_, ended := holdCalls(b, "Echo/ServerStream")
		r.call(t, "GET", "/v1/echo:stream", "").failed(t, 504, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
		expectEnd(t, ended)
		_, ended = holdCalls(b, "Echo/ServerStream")
		_, _, err := openAndEnd(t, r, "Echo/ServerStream")
		grpcFailed(t, err, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
		expectEnd(t, ended)
	})
	t.Run("caller, JSON", func(t *testing.T) {
		_, ended := holdCalls(b, "Echo/Unary")
		r.call(t, "GET", "/v1/echo", "", "Grpc-Timeout", "100m").failed(t, 504, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
		expectEnd(t, ended)
	})
	t.Run("caller, gRPC", func(t *testing.T) {
		_, ended := holdCalls(b, "Echo/Unary")
		ctx, cancel := context.WithTimeout(r.as(t.Context()), 100*time.Millisecond)
		defer cancel()
		_, err := invoke(ctx, r.conn, unaryEcho, nil)
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		expectEnd(t, ended)
	})
	t.Run("passed already", func(t *testing.T) {
		b.Take()
		r.call(t, "GET", "/v1/echo", "", "Grpc-Timeout", "1n").failed(t, 504, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
		r.call(t, "GET", "/v1/echo", "", "Grpc-Timeout", "0S").failed(t, 504, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
		untouched(t, b)
	})
}

// A backend's own DEADLINE_EXCEEDED is the backend's, details or none.
func TestBackendsDeadlineExceeded(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	b.Handle("Echo/Unary", func(*testbackend.Stream) error { return status.Error(codes.DeadlineExceeded, "mine") })
	a := r.call(t, "GET", "/v1/echo", "")
	a.failed(t, 504, codes.DeadlineExceeded, "")
	_, err := invoke(r.limited(t), r.conn, unaryEcho, nil)
	grpcFailed(t, err, codes.DeadlineExceeded, "")
}

// Fault 8: one caller's deadline or cancellation closes nothing that others of
// the same credential use.
func TestFault8OthersGoOn(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	s := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/Bidi")
	exchange := func() {
		t.Helper()
		if err := s.send("\x10\x01"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.recv(); err != nil {
			t.Fatal(err)
		}
	}
	exchange()
	_, ended := holdCalls(b, "Echo/Unary")
	r.call(t, "GET", "/v1/echo", "", "Grpc-Timeout", "50m").failed(t, 504, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
	waitFor(t, ended, "the end of the backend's context")
	exchange()
	begun, ended := holdCalls(b, "Echo/Unary")
	ctx, hangUp := context.WithCancel(r.limited(t))
	done := make(chan error, 1)
	go func() {
		_, err := invoke(ctx, r.conn, unaryEcho, nil)
		done <- err
	}()
	waitFor(t, begun, "the call at the backend")
	hangUp()
	if err := waitFor(t, done, "the caller's error"); status.Code(err) != codes.Canceled {
		t.Errorf("the caller: %v", err)
	}
	if err := waitFor(t, ended, "the end of the backend's context"); !errors.Is(err, context.Canceled) {
		t.Errorf("the backend: %v", err)
	}
	exchange()
	if dials := r.Metric("rpcgate_pool_dials_total", "backend", "echo"); dials > 2 { // one is reflection's
		t.Errorf("%v dials", dials)
	}
}
