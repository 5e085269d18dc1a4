package rpcproxy

import (
	"context"
	"time"
)

// toldContext tells grpc-go's client a deadline whose distance is a multiple of
// step, for the grpc-timeout that it sends. The time that is really left is
// another in each call, and each new value enters the connection's HPACK table
// on both sides and pushes an older one out; a value that repeats is one byte.
//
// It is rounded up, so that our own limit, which the context keeps, still ends
// the call first and names what was slow. As step is no longer than what
// restrict keeps back, it stays within what the caller gave.
type toldContext struct {
	context.Context

	step time.Duration
}

// minStep is the finest step: grpc-timeout has whole microseconds for times of
// more than 0.1 s, and shorter ones do not repeat.
const minStep = time.Microsecond

// withToldDeadline is ctx where step is too fine to be of use.
func withToldDeadline(ctx context.Context, step time.Duration) context.Context {
	step = step.Truncate(minStep)
	if step < minStep {
		return ctx
	}
	return toldContext{ctx, step}
}

// Deadline implements context.Context, but for this: what it returns moves with
// the time it is asked at, by less than step.
func (c toldContext) Deadline() (time.Time, bool) {
	deadline, ok := c.Context.Deadline()
	if !ok {
		return deadline, false
	}
	now := time.Now()
	left := deadline.Sub(now)
	if left <= 0 {
		return deadline, true
	}
	return now.Add((left + c.step - 1).Truncate(c.step)), true
}
