package rpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// call is one Forward: the caller's side of it, and what its attempts share.
// It is one allocation together with its first attempt, which mostly is the
// only one.
type call struct {
	backend *Backend
	method  *method
	request *Request
	ex      Exchange
	caller  context.Context // as given to Forward: done when the caller is gone

	pass  breaker.Pass // guard
	limit limit        // restrict

	// The one request message of a caller that does not stream. It is sent by
	// each attempt, and freed when Forward returns.
	in mem.BufferSlice
	// What a caller that streams sends; nil: nothing, yet.
	replay *replay
	// Of a caller that streams: it has sent all it wants to.
	sent atomic.Bool

	key   uint64 // ring_hash: the hash of what keeps its endpoint
	keyed bool   // there is such a thing

	attempts    int               // begun
	maxAttempts int               // 1: none is made again
	idempotent  bool              // it may be made again though it was sent
	previous    int               // attempts that the backend may know of
	tried       []*fleet.Endpoint // of attempts that failed
	backoffs    int               // pauses that grew, since the backend last said how long to wait
	leftOut     bool              // an attempt was refused before it was looked at

	// Closed when an attempt has ended whose answer is not needed; nil: there is
	// none.
	loser chan struct{}

	failed bool // the response says, by Request.Judge, that it is no success

	// The attempt whose outcome is the call's.
	last *attempt

	first attempt
}

// limit is how long a call or an attempt may take.
type limit struct {
	timeout  time.Duration // before the reserve; 0: as long as it wants
	reserve  time.Duration // what is kept back of it
	byCaller bool          // the caller's deadline comes first
	// It is that of one attempt: the call has more time.
	ofAttempt bool
}

func newCall(caller context.Context, b *Backend, m *method, r *Request, ex Exchange) *call {
	c := &call{backend: b, method: m, request: r, ex: ex, caller: caller}
	c.last = &c.first
	c.first.call = c
	return c
}

// findKey finds out what keeps its endpoint, for all attempts, where the balancer
// wants to know.
func (c *call) findKey() {
	if !c.backend.hashKeys {
		return
	}
	r := c.request
	key := r.HashKey
	if r.HashOf != nil && key == "" && !r.ClientStreams {
		key = r.HashOf(c.in)
	}
	if header := c.backend.hashHeader; key == "" && header != "" {
		if values := r.Metadata[header]; len(values) > 0 {
			key = values[0]
		}
	}
	if key == "" {
		key = r.Credential.App
	}
	if key != "" {
		c.key, c.keyed = fleet.HashKey(key), true
	}
}

// mayRepeat tells whether there may be more than one attempt.
func (c *call) mayRepeat() bool { return c.maxAttempts > 1 }

// repeatable tells whether all that an attempt needs is there for another one,
// and nothing of an answer has come that it would have to go with: of a stream,
// the header, which the exchange has by then; of a unary call, the message. Its
// header the exchange is not given before, and many a server sends one ahead of
// a failure, from an interceptor.
func (c *call) repeatable(a *attempt) bool {
	if !c.streams() {
		return !a.answered
	}
	return a.header == nil && (c.replay == nil || c.replay.whole())
}

// exchangeFailure is why nothing more comes from a caller that streams; nil: more
// may, or all has come.
func (c *call) exchangeFailure() *ExchangeError {
	if c.replay == nil {
		return nil
	}
	return c.replay.failure()
}

// another makes the attempt that follows one that failed.
func (c *call) another(failed *attempt) *attempt {
	c.remember(failed)
	a := &attempt{call: c, previous: c.previous}
	a.choice.Tried = c.tried
	return a
}

// remember keeps what later attempts must know of one that failed.
func (c *call) remember(failed *attempt) {
	if failed.endpoint != nil {
		c.tried = append(c.tried, failed.endpoint)
	}
	if failed.reached {
		c.previous++
	}
}

// conclude gives the exchange the rest of what the last attempt brought.
func (c *call) conclude(a *attempt, err error) error {
	c.last = a
	if err == nil && c.request.Judge != nil && !c.streams() {
		c.failed = !c.request.Judge(a.out.Data)
	}
	c.note(a)
	if c.streams() {
		return a.endStream(err)
	}
	return a.answer(err)
}

// note tells the caller of Forward how the call was served by an attempt. It
// comes before the exchange is given anything.
func (c *call) note(a *attempt) {
	s := c.request.Served
	if s == nil {
		return
	}
	s.Attempts, s.Endpoint, s.Failed = c.attempts, a.address(), c.failed
}

// interrupted is the error of a call that ended between two attempts.
func (c *call) interrupted(a *attempt) error {
	if errors.Is(c.caller.Err(), context.Canceled) {
		return errCallerGone(c.caller)
	}
	a.limit = c.limit
	return a.timedOut()
}

func (c *call) streams() bool { return c.request.ClientStreams || c.request.ServerStreams }

// receiveOnly takes the one request message of a call whose caller does not
// stream.
func (c *call) receiveOnly() error {
	msg, err := c.ex.RecvMsg()
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("no request message: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return c.last.exchangeFailed(&ExchangeError{Err: err})
	}
	c.in = msg
	return nil
}

// close gives up what the caller sent.
func (c *call) close() {
	if c.loser != nil {
		<-c.loser // it was cancelled
	}
	c.in.Free()
	c.in = nil
	if c.replay != nil {
		c.replay.close()
	}
}
