package rpcproxy

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// step is one link of the chain that every attempt runs through.
type step func(ctx context.Context, a *attempt) error

// chain is built once per backend. Retries will stand between restrict and
// send, so that the limit is that of all tries together, and the breaker sees
// the last one's outcome.
func chain(reserve time.Duration) step {
	return observe(guard(restrict(reserve, send)))
}

// observe counts the attempt. One that the breaker refuses is none.
func observe(next step) step {
	return func(ctx context.Context, a *attempt) error {
		start := time.Now()
		err := next(ctx, a)
		if is[*BreakerOpenError](err) {
			a.method.rejections.Inc()
			return err
		}
		a.method.count(codeOf(err), time.Since(start))
		a.backend.noteReach(err)
		return err
	}
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

// restrict gives the attempt its deadline: the caller's or the configured
// limit, whichever is sooner, less a reserve in which the gateway can still
// answer. Of a short time no more than a quarter is kept back.
func restrict(reserve time.Duration, next step) step {
	return func(ctx context.Context, a *attempt) error {
		now := time.Now()
		var deadline time.Time
		if own := a.method.limit(a.request); own > 0 {
			deadline = now.Add(own)
		}
		sooner := func(t time.Time) {
			if deadline.IsZero() || t.Before(deadline) {
				deadline = t
				a.limit.byCaller = true
			}
		}
		if t, ok := ctx.Deadline(); ok {
			sooner(t)
		}
		if t := a.request.Deadline; !t.IsZero() {
			sooner(t)
		}
		if deadline.IsZero() {
			return next(ctx, a)
		}
		budget := deadline.Sub(now)
		if budget <= 0 {
			return a.timedOut()
		}
		kept := max(0, min(reserve, budget/4))
		a.limit.timeout, a.limit.reserve = budget, kept
		ctx, cancel := context.WithDeadline(ctx, deadline.Add(-kept))
		defer cancel()
		return next(ctx, a)
	}
}

// send acquires a connection and takes the unary or the stream road.
func send(ctx context.Context, a *attempt) error {
	lease, err := a.backend.pool.Acquire(ctx, a.request.Credential)
	if err != nil {
		return a.notAcquired(ctx, err)
	}
	a.lease = lease
	defer lease.Release()
	if r := a.request.Revocable; r != nil && r.Revoked() {
		// The connection may have been made after the pool was told.
		a.backend.pool.retireRevoked(lease)
		return a.cutOff(reasonRevoked)
	}
	ctx = a.outgoing(ctx)
	if a.streams() {
		return a.stream(ctx)
	}
	return a.unary(ctx)
}

func (a *attempt) notAcquired(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrPoolFull):
		return &LocalError{Backend: a.backend.name, Status: status.New(codes.ResourceExhausted, err.Error()), Cause: err}
	case errors.Is(err, ErrClosed):
		return &LocalError{Backend: a.backend.name, Status: status.New(codes.Unavailable, err.Error()), Cause: err}
	case ctx.Err() != nil:
		return a.fail(ctx, status.FromContextError(ctx.Err()).Err())
	default:
		return &UnreachableError{Backend: a.backend.name, Target: a.backend.target, Cause: err}
	}
}
