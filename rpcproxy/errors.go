package rpcproxy

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/status"
)

// StatusError is a status that the backend's application sent. It passes to
// the caller untouched. Headers and trailers were given to the exchange.
type StatusError struct {
	Status *status.Status
}

func (e *StatusError) Error() string { return "backend answered: " + e.Status.String() }

// AboutRequest tells whether it is what a backend's gRPC library says of a
// request that it cannot take, before any of the application's code.
func (e *StatusError) AboutRequest() bool { return aboutRequest(e.Status) }

// GRPCStatus lets grpc-go's status package find the status.
func (e *StatusError) GRPCStatus() *status.Status { return e.Status }

// UnreachableError says that there was no connection to the backend, that it
// broke before the backend had answered in full, or that a proxy between
// answered that it could not reach it (HTTP 502, 503, 504).
type UnreachableError struct {
	// The backend's name and the gRPC target that was dialled.
	Backend, Target string
	// Whether the call may have reached the backend's application with its last
	// attempt. If false, it may be repeated elsewhere: what an earlier attempt
	// reached it with may be repeated, or there would have been no other.
	Sent bool
	// What grpc-go said. It may quote a proxy's page, which Error leaves out: for
	// the log only.
	Cause error
}

func (e *UnreachableError) Error() string {
	if e.Sent {
		return fmt.Sprintf("backend %q (%s) was lost during the call: %s: check whether it restarted, and what a proxy between says",
			e.Backend, e.Target, statusText(e.Cause))
	}
	return fmt.Sprintf("backend %q (%s) cannot be reached: %s: check that it runs, that target and port are right, and that both sides agree on tls",
		e.Backend, e.Target, statusText(e.Cause))
}

func (e *UnreachableError) Unwrap() error { return e.Cause }

// BreakerOpenError says that the breaker of a method refused the call.
type BreakerOpenError struct {
	// The backend's name and the full method name.
	Backend, Method string
	// When trying again makes sense.
	RetryAfter time.Duration
	// Only the calling app's calls are refused.
	AppOnly bool
	// An operator forced the breaker open.
	Forced bool
}

func (e *BreakerOpenError) Error() string {
	whose := ""
	if e.AppOnly {
		whose = " by this app"
	}
	if e.Forced {
		return fmt.Sprintf("breaker of backend %q was forced open by an operator for calls%s of %s", e.Backend, whose, e.Method)
	}
	if e.AppOnly {
		return fmt.Sprintf("breaker of backend %q is open for %s: too many of this app's latest calls failed", e.Backend, e.Method)
	}
	return fmt.Sprintf("breaker of backend %q is open for %s: too many of its latest calls failed", e.Backend, e.Method)
}

// TimeoutError says that the backend had not answered in full when the time
// was up.
type TimeoutError struct {
	// The backend's name.
	Backend string
	// How long the attempt was given, the reserve included: as configured, or
	// what was left until the caller's deadline, rounded. 0: nothing was left.
	Limit time.Duration
	// Whether the time was up by the caller's own deadline, and not by a limit
	// of the route or the backend.
	CallerDeadline bool
	// Whether it was up for one attempt alone (retry.attempt_timeout).
	OfAttempt bool
	// Whether no connection to the backend had come about by then.
	Connecting bool
	// Whether the time was up before there was a connection to send the call on,
	// ready or not: the backend does not know of it.
	Unsent bool
}

func (e *TimeoutError) Error() string {
	whose := "the configured limit"
	switch {
	case e.CallerDeadline:
		whose = "the caller's deadline"
	case e.OfAttempt:
		whose = "the limit of one attempt"
	}
	if e.Unsent {
		return fmt.Sprintf("backend %q was not called: %s passed before the call was sent", e.Backend, whose)
	}
	what := "did not answer"
	if e.Connecting {
		what = "could not be connected to"
	}
	return fmt.Sprintf("backend %q %s within %v (%s)", e.Backend, what, e.Limit, whose)
}

// ExchangeError is a failure of the exchange's own RecvMsg, SendHeader or
// SendMsg: a bad request message, a caller that hung up. Unwrap gives it.
type ExchangeError struct {
	Err error
}

func (e *ExchangeError) Error() string { return "caller's side: " + e.Err.Error() }

func (e *ExchangeError) Unwrap() error { return e.Err }

// LocalError is a status that was made up on this side of the backend, by
// grpc-go or by this package: a message too large (ResourceExhausted), an
// answer that is not gRPC (by its HTTP status), bytes on the wire that make no
// sense (Internal), no room in the pool (ResourceExhausted, [ErrPoolFull]), a
// connection that was closed on purpose during the call ([ErrRevoked],
// [ErrDrained], [ErrClosed]).
type LocalError struct {
	// The backend's name.
	Backend string
	Status  *status.Status
	// One of this package's errors, or nil: grpc-go's doing.
	Cause error
}

func (e *LocalError) Error() string {
	return fmt.Sprintf("call to backend %q: %s: %s", e.Backend, e.Status.Code(), e.Status.Message())
}

// GRPCStatus lets grpc-go's status package find the status.
func (e *LocalError) GRPCStatus() *status.Status { return e.Status }

func (e *LocalError) Unwrap() error { return e.Cause }

// Causes of a [LocalError].
var (
	// ErrPoolFull: as many connections as are allowed are open and in use, and
	// as many again are draining.
	ErrPoolFull = errors.New("no connection is free")
	// ErrRevoked: the credential was revoked during the call, and revocation
	// ends calls in flight.
	ErrRevoked = errors.New("the credential was revoked during the call")
	// ErrDrained: the call went on past the drain limit on a connection that was
	// taken out of use.
	ErrDrained = errors.New("the connection was closed at its drain limit")
	// ErrClosed: the backend is shut down.
	ErrClosed = errors.New("the backend is shut down")
)

// statusText is the message of a gRPC status without its prefix, and without
// the body of an answer that is not gRPC.
func statusText(err error) string {
	if err == nil {
		return "no connection"
	}
	if s, ok := status.FromError(err); ok {
		return withoutBody(s.Message())
	}
	return err.Error()
}
