package rpcproxy

import (
	"context"
	"time"

	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// attemptContext is what grpc-go is given of an attempt's context. It gives the
// balancer the attempt's choice, and tells grpc-go's client a deadline whose distance is a multiple of
// step, for the grpc-timeout that it sends. The time that is really left is
// another in each call, and each new value enters the connection's HPACK table
// on both sides and pushes an older one out; a value that repeats is one byte.
//
// It is rounded up, so that our own limit, which the context keeps, still ends
// the call first and names what was slow. As step is no longer than what
// restrict keeps back, it stays within what the caller gave.
type attemptContext struct {
	context.Context

	step   time.Duration
	choice *fleet.Choice
}

// minStep is the finest step: grpc-timeout has whole microseconds for times of
// more than 0.1 s, and shorter ones do not repeat.
const minStep = time.Microsecond

// Value implements context.Context.
func (c *attemptContext) Value(key any) any {
	if key == (balancer.ChoiceKey{}) {
		return c.choice
	}
	return c.Context.Value(key)
}

// Deadline implements context.Context, but for this: what it returns moves with
// the time it is asked at, by less than step.
func (c *attemptContext) Deadline() (time.Time, bool) {
	deadline, ok := c.Context.Deadline()
	step := c.step.Truncate(minStep)
	if !ok || step < minStep {
		return deadline, ok
	}
	now := time.Now()
	left := deadline.Sub(now)
	if left <= 0 {
		return deadline, true
	}
	return now.Add((left + step - 1).Truncate(step)), true
}
