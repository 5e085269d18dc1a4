package rpcproxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

// longestPushback is how long a backend may have a call wait. Beyond it the
// answer, which says so, goes to the caller, who can wait without a call being
// held here.
const longestPushback = time.Minute

// retrier makes the attempts of a backend's calls. What it promises: a call of
// which anything may have reached the backend's application is made again only if
// it is idempotent; and none whose response has begun: a stream with its header, a
// unary call with its message.
type retrier struct {
	maxAttempts         int
	codes               uint32 // bit n: code n
	backoff, maxBackoff time.Duration
	attemptTimeout      time.Duration
	replaySize          int
	hedge               config.Hedge
	budget              *budget
	random              func() float64 // in [0,1), for use by many goroutines

	send func(*attempt, context.Context) error // attempt.send, but for tests
}

func newRetrier(cfg config.Retry) *retrier {
	r := &retrier{
		maxAttempts: max(1, cfg.MaxAttempts),
		backoff:     cfg.Backoff, maxBackoff: cfg.MaxBackoff,
		attemptTimeout: cfg.AttemptTimeout,
		replaySize:     int(cfg.ReplaySize),
		hedge:          cfg.Hedge,
		budget:         newBudget(cfg.Budget),
		random:         rand.Float64,
		send:           (*attempt).send,
	}
	for _, name := range cfg.Codes {
		r.codes |= 1 << rpccode.Code_value[name]
	}
	return r
}

func (r *retrier) retries(code codes.Code) bool { return code < 32 && r.codes>>code&1 == 1 }

// run makes attempts until one of them has the call's answer, or no other is to
// be made.
func (r *retrier) run(ctx context.Context, c *call) error {
	r.budget.call()
	c.maxAttempts = r.maxAttempts
	if n := c.request.MaxAttempts; n > 0 {
		c.maxAttempts = n
	}
	c.idempotent = c.request.Idempotent || c.request.NoSideEffects
	c.findKey()
	if c.request.ClientStreams {
		size := 0
		if c.mayRepeat() {
			size = r.replaySize
		}
		c.replay = newReplay(c.ex, size, func() { c.sent.Store(true) })
	}
	a := &c.first
	for {
		c.attempts++
		a.more = c.attempts < c.maxAttempts
		var err error
		if delay, ok := r.hedgeDelay(ctx, c); ok {
			a, err = r.hedged(ctx, a, delay)
		} else {
			err = a.try(ctx)
		}
		if err == nil {
			return c.conclude(a, nil)
		}
		pause, again := r.again(ctx, c, a, err)
		if !again {
			return c.conclude(a, err)
		}
		if !sleep(ctx, pause) {
			return c.conclude(a, c.interrupted(a))
		}
		if failed := c.exchangeFailure(); failed != nil {
			return c.conclude(a, a.exchangeFailed(failed))
		}
		c.method.retries.Inc()
		a = c.another(a)
	}
}

// again tells whether an attempt that failed is followed by another one, and
// after which pause.
func (r *retrier) again(ctx context.Context, c *call, a *attempt, err error) (pause time.Duration, again bool) {
	if c.attempts >= c.maxAttempts || ctx.Err() != nil || !c.repeatable(a) {
		return 0, false
	}
	why := r.judge(a, err)
	switch {
	case why.safe, why.retryable && c.idempotent:
	default:
		return 0, false
	}
	switch {
	case why.pushback.stop:
		return 0, false
	case why.pushback.said:
		pause, c.backoffs = why.pushback.wait, 0
		if pause > longestPushback {
			return 0, false
		}
	case why.refused && !c.leftOut:
		// That end is about to go: another one is there at once.
		c.leftOut = true
	default:
		pause = r.pause(c.backoffs)
		c.backoffs++
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause+c.method.usual.get() {
		c.method.noTime.Inc()
		return 0, false
	}
	if a.wasSent() && !r.budget.draw() {
		c.method.noBudget.Inc()
		return 0, false
	}
	return pause, true
}

// pause is a random time, anywhere up to a bound that doubles with each one
// before it: "full jitter" (M. Brooker, Exponential Backoff And Jitter, AWS
// Architecture Blog, 2015).
func (r *retrier) pause(before int) time.Duration {
	bound := r.maxBackoff
	if d := r.backoff << before; d>>before == r.backoff && d < bound { // no overflow
		bound = d
	}
	return time.Duration(r.random() * float64(bound))
}

// failure is what the end of an attempt means for another one.
type failure struct {
	safe      bool // nothing of it reached the backend's application
	refused   bool // safe, because the other end said so
	retryable bool // if the call is idempotent
	pushback  pushback
}

// judge reads an attempt's error. What this gateway says by itself is never a
// reason to try again: a limit, a revoked credential, a breaker.
func (r *retrier) judge(a *attempt, err error) failure {
	if lost, ok := errors.AsType[*UnreachableError](err); ok {
		if isThrottled(status.Convert(lost.Cause)) {
			return failure{}
		}
		return failure{safe: !lost.Sent, refused: !lost.Sent && a.wasSent(), retryable: r.retries(codes.Unavailable)}
	}
	if late, ok := errors.AsType[*TimeoutError](err); ok {
		// It is the attempt's own, for the call has time left.
		return failure{safe: late.Unsent || late.Connecting, retryable: true}
	}
	answered, ok := errors.AsType[*StatusError](err)
	if !ok || aboutRequest(answered.Status) {
		return failure{}
	}
	code := answered.Status.Code()
	f := failure{retryable: r.retries(code) || code == codes.DeadlineExceeded && a.expired()}
	if f.retryable {
		f.pushback = parsePushback(a.trailer, answered.Status)
	}
	if code == codes.ResourceExhausted && !f.pushback.said {
		f.retryable = false
	}
	return f
}

// sleep waits, and tells whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
