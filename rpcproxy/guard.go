package rpcproxy

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// guard asks the method's breaker.
func guard(next step) step {
	return func(ctx context.Context, c *call) error {
		pass, err := c.method.breaker.Allow()
		if err != nil {
			c.method.rejections.Inc()
			refused := &BreakerOpenError{Backend: c.backend.name, Method: c.request.Method}
			if open, ok := errors.AsType[*breaker.OpenError](err); ok {
				refused.RetryAfter = open.RetryAfter
			}
			return refused
		}
		c.pass = pass
		outcome := breaker.Ignored // should next panic
		defer func() { c.pass.Done(outcome) }()
		err = next(ctx, c)
		outcome = c.last.outcome(err)
		return err
	}
}

// outcome is what the attempt says about the backend. The counted codes are
// zRPC's; but what only one app causes says nothing, or it could shut out the
// others: its own deadline, its cancellation, its bad request, our own limits.
func (a *attempt) outcome(err error) breaker.Outcome {
	if err == nil {
		return breaker.Success
	}
	if answered, ok := errors.AsType[*StatusError](err); ok {
		switch code := answered.Status.Code(); {
		case code == codes.Canceled, code == codes.DeadlineExceeded && a.limit.byCaller,
			aboutRequest(answered.Status):
			return breaker.Ignored
		case speaksAgainst(code):
			return breaker.Failure
		default:
			return breaker.Success
		}
	}
	if is[*UnreachableError](err) {
		return breaker.Failure
	}
	if timeout, ok := errors.AsType[*TimeoutError](err); ok {
		if timeout.CallerDeadline || a.callerMayBeSlow() {
			return breaker.Ignored
		}
		return breaker.Failure
	}
	// What grpc-go refuses to send, such as bad metadata, is the caller's doing.
	// Of compressed bytes that make no sense, after headers, only the text is
	// left to tell whose they are, and it is the same for both: not counted.
	if local, ok := errors.AsType[*LocalError](err); ok && local.Cause == nil && a.wasSent() && !aboutRequest(local.Status) {
		if code := local.Status.Code(); code != codes.ResourceExhausted && speaksAgainst(code) {
			return breaker.Failure
		}
	}
	return breaker.Ignored // ExchangeError and context.Canceled, too
}

// wasSent tells, once the call is over, whether it got as far as a connection.
// The header comes first: with one message too many, which comes after a header,
// grpc-go leaves the stream running, and the peer is still its own.
func (a *attempt) wasSent() bool { return a.header != nil || a.peer.Addr != nil }

// callerMayBeSlow tells of a stream whether the caller may be the one who took
// the time, by not sending or not reading.
func (a *attempt) callerMayBeSlow() bool {
	return a.call.streams() && (a.header != nil || a.call.request.ClientStreams && !a.call.sent.Load())
}

// speaksAgainst is zRPC's rule of which codes count against a backend.
func speaksAgainst(code codes.Code) bool {
	switch code {
	case codes.DeadlineExceeded, codes.Internal, codes.Unavailable, codes.DataLoss,
		codes.Unimplemented, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}

// fleetOutcome is what an attempt says about its endpoint: what it says about
// the backend.
func fleetOutcome(o breaker.Outcome) fleet.Outcome {
	switch o {
	case breaker.Success:
		return fleet.Success
	case breaker.Failure:
		return fleet.Failure
	default:
		return fleet.Ignored
	}
}
