package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/transcode"
)

func TestErrorTable(t *testing.T) {
	for _, tc := range []struct {
		err    error
		code   codes.Code
		reason string
		http   int
	}{
		{&routes.NotFoundError{}, codes.NotFound, "NO_ROUTE", 404},
		{&routes.NotFoundError{Pending: []string{"shop"}}, codes.Unavailable, "ROUTES_PENDING", 503},
		{&routes.MethodNotAllowedError{Allow: []string{"GET"}}, codes.Unimplemented, "METHOD_NOT_ALLOWED", 405},
		{auth.ErrMissing, codes.Unauthenticated, "CREDENTIAL_MISSING", 401},
		{auth.ErrMalformed, codes.Unauthenticated, "CREDENTIAL_MALFORMED", 401},
		{auth.ErrInvalid, codes.Unauthenticated, "TOKEN_INVALID", 401},
		{auth.ErrExpired, codes.Unauthenticated, "TOKEN_EXPIRED", 401},
		{auth.ErrRevoked, codes.Unauthenticated, "TOKEN_REVOKED", 401},
		{auth.ErrSuspended, codes.PermissionDenied, "APP_SUSPENDED", 403},
		{errSource, codes.PermissionDenied, "SOURCE_NOT_ALLOWED", 403},
		{scopeMissing("shop.OrderService/GetOrder"), codes.PermissionDenied, "SCOPE_MISSING", 403},
		{auth.ErrUnavailable, codes.Unavailable, "AUTH_UNAVAILABLE", 503},
		{&transcode.Error{Field: "id", Reason: "not a number"}, codes.InvalidArgument, "BAD_REQUEST", 400},
		{&rpcproxy.BreakerOpenError{Backend: "shop", Method: "/m"}, codes.Unavailable, "BREAKER_OPEN", 503},
		{&rpcproxy.BusyError{Backend: "shop", Limit: 5000}, codes.ResourceExhausted, "BACKEND_BUSY", 503},
		{errOverloaded, codes.ResourceExhausted, "OVERLOADED", 503},
		{&rpcproxy.UnreachableError{Backend: "shop", Target: "dns:///x"}, codes.Unavailable, "BACKEND_UNREACHABLE", 503},
		{&rpcproxy.TimeoutError{Backend: "shop", Limit: time.Second}, codes.DeadlineExceeded, "DEADLINE_EXCEEDED", 504},
		{&rpcproxy.LocalError{Status: status.New(codes.ResourceExhausted, "x")}, codes.ResourceExhausted, "MESSAGE_TOO_LARGE", 413},
		{&rpcproxy.LocalError{Status: status.New(codes.ResourceExhausted, "x"), Cause: rpcproxy.ErrPoolFull}, codes.Unavailable, "POOL_FULL", 503},
		{&rpcproxy.LocalError{Status: status.New(codes.Unauthenticated, "x"), Cause: rpcproxy.ErrRevoked}, codes.Unauthenticated, "TOKEN_REVOKED", 401},
		{&rpcproxy.ExchangeError{Err: errBodyTooLarge}, codes.ResourceExhausted, "BODY_TOO_LARGE", 413},
		{&rpcproxy.ExchangeError{Err: &transcode.Error{Field: "id", Reason: "x"}}, codes.InvalidArgument, "BAD_REQUEST", 400},
		{&rpcproxy.ExchangeError{Err: status.Error(codes.ResourceExhausted, "x")}, codes.ResourceExhausted, "MESSAGE_TOO_LARGE", 413},
		{context.Canceled, codes.Canceled, "CANCELLED", 499},
		{context.DeadlineExceeded, codes.DeadlineExceeded, "DEADLINE_EXCEEDED", 504},
		{&panicError{value: "secret"}, codes.Internal, "INTERNAL", 500},
		{errors.New("who knows"), codes.Internal, "INTERNAL", 500},
	} {
		t.Run(fmt.Sprintf("%T %s", tc.err, tc.reason), func(t *testing.T) {
			got := describe(fmt.Errorf("wrapped: %w", tc.err))
			if got.Code != tc.code || got.Reason != tc.reason || got.HTTPStatus() != tc.http {
				t.Fatalf("got %v %s %d, want %v %s %d", got.Code, got.Reason, got.HTTPStatus(), tc.code, tc.reason, tc.http)
			}
			if again := describe(got); again != got {
				t.Errorf("describing it again gives another failure: %v", again)
			}
			if info := errorInfo(t, got.Status()); info.GetReason() != tc.reason || info.GetDomain() != errorDomain {
				t.Errorf("ErrorInfo is %v", info)
			}
		})
	}
	if describe(nil) != nil {
		t.Error("no error is a failure")
	}
}

// Bare failures keep their code, message, HTTP status and hints; those of a
// backend keep all.
func TestWithoutDetails(t *testing.T) {
	t.Parallel()
	full := describe(&routes.MethodNotAllowedError{Allow: []string{"GET"}})
	bare := full.withoutDetails()
	if s := bare.Status(); len(s.Details()) > 0 || s.Code() != full.Code || s.Message() != full.Message {
		t.Errorf("got %v", s.Proto())
	}
	if bare.HTTPStatus() != full.HTTPStatus() || len(bare.allow) != 1 || bare.Reason != full.Reason {
		t.Errorf("got %+v, made of %+v", bare, full)
	}
	if len(full.Status().Details()) == 0 {
		t.Error("the failure itself has changed")
	}
	sent, err := status.New(codes.NotFound, "none").WithDetails(&errdetails.ErrorInfo{Reason: "GONE"})
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(&rpcproxy.StatusError{Status: sent}).withoutDetails().Status(); len(got.Details()) != 1 {
		t.Errorf("the backend's status lost its details: %v", got.Proto())
	}
}

func errorInfo(t *testing.T, s *status.Status) *errdetails.ErrorInfo {
	t.Helper()
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	t.Fatalf("%v has no ErrorInfo", s)
	return nil
}

// A status of the backend passes untouched, whatever it is.
func TestBackendStatusPasses(t *testing.T) {
	sent, err := status.New(codes.NotFound, "no such user").WithDetails(&errdetails.ErrorInfo{Reason: "GONE", Domain: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	got := describe(fmt.Errorf("x: %w", &rpcproxy.StatusError{Status: sent}))
	if got.Status() != sent || got.Reason != "" || got.HTTPStatus() != http.StatusNotFound {
		t.Errorf("got %v, reason %q, HTTP %d", got.Status(), got.Reason, got.HTTPStatus())
	}
}

// What went wrong inside never shows outside.
func TestCausesStayInside(t *testing.T) {
	for _, err := range []error{
		errors.New("dial redis://:hunter2@10.0.0.1"),
		&panicError{value: "hunter2", stack: []byte("hunter2")},
		fmt.Errorf("asking redis with hunter2: %w", auth.ErrUnavailable),
		fmt.Errorf("token hunter2: %w", auth.ErrInvalid),
	} {
		if got := describe(err).Status().Proto().String(); containsFold(got, "hunter2") {
			t.Errorf("%v is shown as %s", err, got)
		}
	}
}

func TestHints(t *testing.T) {
	h := http.Header{}
	describe(&rpcproxy.BreakerOpenError{RetryAfter: 1500 * time.Millisecond}).writeHints(h)
	if got := h.Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After: %q, want 2", got)
	}
	h = http.Header{}
	describe(&routes.MethodNotAllowedError{Allow: []string{"GET", "HEAD"}}).writeHints(h)
	if got := h.Get("Allow"); got != "GET, HEAD" {
		t.Errorf("Allow: %q", got)
	}
	h = http.Header{}
	describe(auth.ErrInvalid).writeHints(h)
	if h.Get("Www-Authenticate") == "" {
		t.Error("401 without WWW-Authenticate")
	}
	h = http.Header{}
	describe(&rpcproxy.StatusError{Status: status.New(codes.Unauthenticated, "the backend's own")}).writeHints(h)
	if h.Get("Www-Authenticate") != "" {
		t.Error("the backend's 401 is not the gateway's to ask a credential for")
	}
}
