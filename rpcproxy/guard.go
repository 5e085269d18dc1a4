package rpcproxy

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// guard asks the method's breakers, and tells them of the call's outcome: once,
// however many attempts there were.
func guard(next step) step {
	return func(ctx context.Context, c *call) error {
		if c.request.Endpoint != "" {
			// One endpoint says little of the method, and those that are well must
			// get a call that is for all of them. An operator's word holds.
			if err := c.method.breaker.CheckForced(c.request.Credential.App); err != nil {
				c.method.rejections.Inc()
				return c.refused(err)
			}
			return next(ctx, c)
		}
		pass, err := c.method.breaker.Allow(c.request.Credential.App)
		if err != nil {
			c.method.rejections.Inc()
			return c.refused(err)
		}
		c.pass = pass
		outcome, why := breaker.Ignored, "" // should next panic
		defer func() { c.pass.Done(outcome, why) }()
		err = next(ctx, c)
		outcome, why = c.outcome(err)
		return err
	}
}

// judgedFailure is what a success that the route takes for a failure is named in
// views, among the names of codes.
const judgedFailure = "OUTCOME"

// outcome is what the call says about the backend, and what a failure is named.
func (c *call) outcome(err error) (o breaker.Outcome, why string) {
	if err == nil && c.failed && c.request.JudgeCounts {
		return breaker.Failure, judgedFailure
	}
	if o = c.last.outcome(err); o > breaker.Success {
		why = codeName(codeOf(err))
	}
	return o, why
}

// refused is the error for a call that a breaker refused.
func (c *call) refused(err error) error {
	refused := &BreakerOpenError{Backend: c.backend.name, Method: c.request.Method}
	if open, ok := errors.AsType[*breaker.OpenError](err); ok {
		refused.RetryAfter, refused.AppOnly, refused.Forced = open.RetryAfter, open.AppOnly, open.Forced != nil
	}
	return refused
}

// outcome is what the attempt says about the backend. The counted codes are
// zRPC's; but what only one app causes says nothing, or it could shut out the
// others: its own deadline, its cancellation, its bad request, our own limits.
// What it has used up of its quota is held against it alone.
//
// DEADLINE_EXCEEDED counts unless the caller's deadline was the shorter one, in
// which case nobody knows whether the backend would have answered in time. That
// a backend answers with before the route's timeout is up is a failure of its
// own: a zRPC server ends calls so when its own limit comes first.
func (a *attempt) outcome(err error) breaker.Outcome {
	if err == nil {
		return breaker.Success
	}
	if answered, ok := errors.AsType[*StatusError](err); ok {
		switch code := answered.Status.Code(); {
		case code == codes.Canceled, code == codes.DeadlineExceeded && a.limit.byCaller,
			aboutRequest(answered.Status):
			return breaker.Ignored
		case code == codes.ResourceExhausted:
			return breaker.Exhausted
		case speaksAgainst(code):
			return breaker.Failure
		default:
			return breaker.Success
		}
	}
	if lost, ok := errors.AsType[*UnreachableError](err); ok {
		if isThrottled(status.Convert(lost.Cause)) {
			return breaker.Exhausted
		}
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
