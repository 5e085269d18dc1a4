package rpcproxy

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// step is one link of the chain that every call runs through.
type step func(ctx context.Context, c *call) error

// chain is built once per backend. Attempts are made under restrict, so that the
// limit is that of all of them together, and the breaker sees the outcome of
// the one that became the call's.
func chain(reserve time.Duration, attempts step) step {
	return guard(restrict(reserve, attempts))
}

// is tells whether err is, or wraps, an E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// codeOf is the code an attempt counts as.
func codeOf(err error) codes.Code {
	switch {
	case err == nil:
		return codes.OK
	case is[*UnreachableError](err):
		return codes.Unavailable
	case is[*TimeoutError](err):
		return codes.DeadlineExceeded
	case is[*ExchangeError](err), errors.Is(err, context.Canceled):
		return codes.Canceled
	default: // StatusError, LocalError
		return status.Code(err)
	}
}

// restrict gives the call its deadline: the caller's or the configured
// limit, whichever is sooner, less a reserve in which the gateway can still
// answer. Of a short time no more than a quarter is kept back.
func restrict(reserve time.Duration, next step) step {
	return func(ctx context.Context, c *call) error {
		now := time.Now()
		var deadline time.Time
		if own := c.method.limit(c.request); own > 0 {
			deadline = now.Add(own)
		}
		sooner := func(t time.Time) {
			if deadline.IsZero() || t.Before(deadline) {
				deadline = t
				c.limit.byCaller = true
			}
		}
		if t, ok := ctx.Deadline(); ok {
			sooner(t)
		}
		if t := c.request.Deadline; !t.IsZero() {
			sooner(t)
		}
		if deadline.IsZero() {
			return next(ctx, c)
		}
		budget := deadline.Sub(now)
		if budget <= 0 {
			c.first.limit = c.limit
			return c.first.timedOut()
		}
		kept := max(0, min(reserve, budget/4))
		c.limit.timeout, c.limit.reserve = budget, kept
		ctx, cancel := context.WithDeadline(ctx, deadline.Add(-kept))
		defer cancel()
		return next(ctx, c)
	}
}
