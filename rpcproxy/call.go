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
	// Of a caller that streams: it has sent all it wants to.
	sent atomic.Bool

	// The attempt whose outcome is the call's.
	last *attempt

	first attempt
}

// limit is how long a call or an attempt may take.
type limit struct {
	timeout  time.Duration // before the reserve; 0: as long as it wants
	reserve  time.Duration // what is kept back of it
	byCaller bool          // the caller's deadline comes first
}

func newCall(b *Backend, m *method, r *Request, ex Exchange, caller context.Context) *call {
	c := &call{backend: b, method: m, request: r, ex: ex, caller: caller}
	c.last = &c.first
	c.first.call = c
	return c
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

// free gives up the request message.
func (c *call) free() {
	c.in.Free()
	c.in = nil
}
