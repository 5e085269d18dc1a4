package rpcproxy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// hedgeDelay is how long an attempt is waited for before another is made beside
// it (J. Dean and L. A. Barroso, The Tail at Scale, 2013: hedged requests);
// false: none is.
func (r *retrier) hedgeDelay(ctx context.Context, c *call) (time.Duration, bool) {
	if !r.hedge.Enabled || !c.request.NoSideEffects || c.request.Endpoint != "" || c.streams() || c.attempts >= c.maxAttempts {
		return 0, false
	}
	delay := r.hedge.Delay
	if delay == 0 {
		delay = c.method.slow.get()
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay+c.method.usual.get() {
		return 0, false // it could not answer in time
	}
	return delay, delay > 0
}

// hedge is an attempt and, if it takes long, another beside it. The first of
// them that has an answer ends the other; a failure after which the call could be
// tried again is none, as long as the other goes on.
//
// The first attempt runs on the call's goroutine. The second is a timer's, which
// the call waits for once it has given its answer away.
type hedge struct {
	retrier *retrier
	ctx     context.Context //nolint:containedctx // the call's, for the timer
	first   *attempt
	chosen  atomic.Pointer[fleet.Endpoint] // where the first one goes
	// Ends the first one.
	cancelFirst context.CancelFunc
	ended       chan struct{} // closed when the second one, if there is one, has ended

	mu           sync.Mutex
	settled      bool     // none begins any more
	second       *attempt // nil: it has not begun
	cancelSecond context.CancelFunc
	err          error    // the second one's
	winner       *attempt // whose answer is the call's
}

// hedged makes an attempt, and another beside it after the delay. It returns the
// one whose outcome counts.
func (r *retrier) hedged(ctx context.Context, a *attempt, delay time.Duration) (*attempt, error) {
	first, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &hedge{retrier: r, ctx: ctx, first: a, cancelFirst: cancel, ended: make(chan struct{})}
	a.choice.Told = &h.chosen
	start := time.Now()
	timer := time.AfterFunc(delay, h.begin)
	err := a.try(first)
	timer.Stop()
	second, done := h.settle(err)
	if done {
		return a, err
	}
	<-h.ended
	c := a.call
	if h.winner == nil {
		// Both failed. What follows is for the first one's failure, unless the backend
		// said when to try again with the other's.
		if r.judge(second, h.err).pushback.said && !r.judge(a, err).pushback.said {
			c.remember(a)
			return second, h.err
		}
		c.remember(second)
		return a, err
	}
	a.out.Free() // it may have had its answer just now
	if errors.Is(first.Err(), context.Canceled) {
		c.method.slow.observe(time.Since(start)) // at least
	}
	c.method.won.Inc()
	return second, h.err
}

// begin makes the second attempt.
func (h *hedge) begin() {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	second := h.open(cancel)
	if second == nil {
		return
	}
	err := second.try(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(h.ended)
	h.err = err
	switch {
	case h.winner != nil:
		second.out.Free()
	case h.retrier.answers(second, err):
		h.winner = second
		h.cancelFirst()
	}
}

// open gives the second attempt, if there may be one.
func (h *hedge) open(cancel context.CancelFunc) *attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.settled || h.ctx.Err() != nil {
		return nil
	}
	c := h.first.call
	if !h.retrier.budget.draw() {
		c.method.noBudget.Inc()
		return nil
	}
	c.method.hedges.Inc()
	c.attempts++
	second := &attempt{call: c, previous: h.first.previous + 1, more: c.attempts < c.maxAttempts}
	second.choice.Tried = h.first.choice.Tried
	if e := h.chosen.Load(); e != nil {
		second.choice.Tried = append(second.choice.Tried[:len(second.choice.Tried):len(second.choice.Tried)], e)
	}
	h.second, h.cancelSecond = second, cancel
	return second
}

// settle is for the end of the first attempt. It returns the second one, and
// whether nothing depends on that any more.
func (h *hedge) settle(err error) (second *attempt, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settled = true
	if h.second == nil {
		return nil, true
	}
	if h.winner == nil && h.retrier.answers(h.first, err) {
		h.winner = h.first
		h.cancelSecond()
		h.first.call.loser = h.ended
		return h.second, true
	}
	return h.second, false
}

// answers tells whether an attempt has ended with what is the call's answer,
// whatever another one does: a response, or a status after which none is tried.
func (r *retrier) answers(a *attempt, err error) bool {
	return err == nil || is[*StatusError](err) && !r.judge(a, err).retryable
}
