package rpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// fail makes of an error of grpc-go the one that Forward returns. ctx is the
// attempt's.
func (a *attempt) fail(ctx context.Context, err error) error {
	s := status.Convert(err)
	a.reached = a.wasSent()
	if errors.Is(err, io.EOF) {
		// grpc-go repeats by itself a call that a GOAWAY left out, and says this
		// when the connection breaks meanwhile.
		s = status.New(codes.Unavailable, "the connection was lost")
		err = s.Err()
	} else if fromBackend(s, a.header, a.trailer) {
		return &StatusError{Status: s}
	} else if a.header == nil && unprocessed(s) {
		a.reached = false
	}
	if exchange, ok := errors.AsType[*ExchangeError](context.Cause(ctx)); ok {
		return a.exchangeFailed(exchange)
	}
	if errors.Is(a.call.caller.Err(), context.Canceled) {
		return errCallerGone(a.call.caller)
	}
	if s.Code() == codes.DeadlineExceeded || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return a.timedOut()
	}
	if why := a.lease.ended(); why != "" {
		return a.cutOff(why)
	}
	if s.Code() == codes.Unavailable {
		return &UnreachableError{Backend: a.call.backend.name, Target: a.call.backend.target, Sent: a.reached, Cause: err}
	}
	return &LocalError{Backend: a.call.backend.name, Status: status.New(s.Code(), withoutBody(s.Message()))}
}

// exchangeFailed is for an error of the exchange. What the exchange says when
// the caller is gone, or its time is up, differs between protocols. It is kept
// beside Canceled, because net/http takes a request whose body fails for one
// whose caller is gone, while the caller waits to be told.
func (a *attempt) exchangeFailed(e *ExchangeError) error {
	switch a.call.caller.Err() {
	case nil:
		return e
	case context.Canceled:
		return fmt.Errorf("%w: %w", errCallerGone(a.call.caller), e)
	default:
		a.limit.byCaller = true
		return a.timedOut()
	}
}

// cutOff is for a connection that was closed on purpose with the call on it.
func (a *attempt) cutOff(why reason) error {
	code, cause := codes.Unavailable, ErrDrained
	switch why {
	case reasonRevoked:
		code, cause = codes.Unauthenticated, ErrRevoked
	case reasonShutdown:
		cause = ErrClosed
	case reasonEvicted, reasonIdle:
	}
	return &LocalError{Backend: a.call.backend.name, Status: status.New(code, cause.Error()), Cause: cause}
}

// timedOut says whose time was up, and whether it went by without a connection.
func (a *attempt) timedOut() error {
	limit := a.limit.timeout
	if a.limit.byCaller {
		limit = roundLimit(limit)
	}
	return &TimeoutError{
		Backend:        a.call.backend.name,
		Limit:          limit,
		CallerDeadline: a.limit.byCaller,
		OfAttempt:      a.limit.ofAttempt,
		Unsent:         a.lease.entry == nil,
		Connecting:     a.peer.Addr == nil && a.lease.entry != nil && a.lease.Conn().GetState() != connectivity.Ready,
	}
}

// roundLimit makes of what was left until a deadline a duration to be read by
// people.
func roundLimit(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= 10*time.Microsecond:
		return d.Round(10 * time.Microsecond)
	default:
		return d
	}
}

// errCallerGone keeps what the caller's context says beside Canceled.
func errCallerGone(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("caller went away: %w: %w", context.Canceled, cause)
	}
	return fmt.Errorf("caller went away: %w", context.Canceled)
}
