package rpcproxy

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// budgetWindow is how long a call goes on to pay for repeats: Finagle's and
// Linkerd's default.
const budgetWindow = 10 * time.Second

// budget bounds the repeats, retries and hedges, of all calls to a backend. It
// follows Finagle's RetryBudget: each call pays in a share of a repeat, which is
// forgotten with time, and time itself pays in a few a second.
//
// What it promises, of any number of goroutines and exactly: from New on, the
// repeats are never more than
//
//	ratio × calls + least × (seconds + 1)
//
// where least is the number a second that are there however few calls there are
// (1 second's worth of it, at least one repeat, is there from the start, and no
// more is saved up). And of what calls paid in, no more than budgetWindow's worth
// at their present rate is there to be spent at once: the balance falls
// exponentially with that time, rather than by Finagle's steps of a ring buffer,
// for which each call would have to look at the clock.
//
// A call costs one atomic addition; only repeats take the lock.
type budget struct {
	ratio, least, reserve float64
	epoch                 time.Time

	_     [64]byte // calls has a line of the processor's cache for itself
	calls atomic.Int64
	_     [56]byte

	mu     sync.Mutex
	paid   int64         // calls that have been credited
	at     time.Duration // when that was
	shares float64       // what is left of the calls' payments
	floor  float64       // what is left of least
}

func newBudget(cfg config.RetryBudget) *budget {
	b := &budget{ratio: cfg.Ratio, least: cfg.MinPerSecond, epoch: time.Now()}
	if b.least > 0 {
		b.reserve = max(1, b.least)
	}
	b.floor = b.reserve
	return b
}

// call pays for a call.
func (b *budget) call() { b.calls.Add(1) }

// draw takes one repeat out of the budget, if there is one.
func (b *budget) draw() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.creditLocked()
	if b.floor+b.shares < 1 {
		return false
	}
	// What comes by itself is spent first.
	fromFloor := min(1, b.floor)
	b.floor -= fromFloor
	b.shares -= 1 - fromFloor
	return true
}

// left is how many repeats there may be at once now.
func (b *budget) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.creditLocked()
	return int(b.floor + b.shares)
}

// creditLocked brings the balance up to date. Calls since the last time are
// taken to have come evenly.
func (b *budget) creditLocked() {
	calls, now := b.calls.Load(), time.Since(b.epoch)
	income := b.ratio * float64(calls-b.paid)
	passed := now - b.at
	b.paid, b.at = calls, now
	b.floor = min(b.reserve, b.floor+b.least*passed.Seconds())
	x := float64(passed) / float64(budgetWindow)
	if x < 1e-9 { // so little that the quotient below loses its digits
		b.shares += income
		return
	}
	left := math.Exp(-x)
	b.shares = b.shares*left + income*(1-left)/x
}
