package gateway

import (
	"slices"

	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/rpcproxy"
)

// heldExchange is the exchange of a unary call that somebody else may answer:
// it keeps the request, so that it can be sent once more, and what comes from
// the backend until there is a message.
type heldExchange struct {
	call *Call

	received bool            // request was taken
	request  mem.BufferSlice // kept
	keeps    bool            // the answer, too
	answer   mem.BufferSlice // kept
	header   metadata.MD     // of a backend that sent no message yet
	trailer  metadata.MD     // as above
	headed   bool            // there is a header, be it empty
	begun    bool            // something was passed on to the caller

	// Of the second backend that is asked: how it serves the call, and how many
	// attempts there were at the first, which count with it. nil: it is the first.
	served *rpcproxy.Served
	before int
}

var _ rpcproxy.Exchange = (*heldExchange)(nil)

// RecvMsg gives the one request, which stays.
func (e *heldExchange) RecvMsg() (mem.BufferSlice, error) {
	if err := e.take(); err != nil {
		return nil, err
	}
	e.request.Ref()
	return slices.Clone(e.request), nil
}

// take takes the request, unless that was done before.
func (e *heldExchange) take() error {
	if e.received {
		return nil
	}
	msg, err := e.call.RecvMsg()
	if err == nil {
		e.received, e.request = true, msg
	}
	return err
}

// SendHeader keeps the header.
func (e *heldExchange) SendHeader(md metadata.MD) error {
	e.header, e.headed = md, true
	return nil
}

// SendMsg passes on header and message: the backend has answered.
func (e *heldExchange) SendMsg(msg mem.BufferSlice) error {
	e.begun = true
	if e.served != nil {
		e.call.out.served = *e.served
		e.call.out.served.Attempts += e.before
	}
	if e.keeps {
		msg.Ref()
		e.answer = slices.Clone(msg)
	}
	if err := e.call.SendHeader(e.header); err != nil {
		msg.Free()
		return err
	}
	return e.call.SendMsg(msg)
}

// SetTrailer passes the trailer on after a message, and keeps it else.
func (e *heldExchange) SetTrailer(md metadata.MD) {
	if e.begun {
		e.call.SetTrailer(md)
		return
	}
	e.trailer = md
}

// give answers the call with a message that is not the backend's.
func (e *heldExchange) give(msg mem.BufferSlice) error {
	e.begun = true
	err := e.call.SendHeader(nil)
	if err == nil {
		err = e.call.SendMsg(msg)
	}
	if err != nil {
		return &rpcproxy.ExchangeError{Err: err}
	}
	return nil
}

// pass passes on what was kept of the backend's failure, err.
func (e *heldExchange) pass(err error) error {
	if e.begun {
		return err
	}
	if e.headed {
		if sendErr := e.call.SendHeader(e.header); sendErr != nil {
			return &rpcproxy.ExchangeError{Err: sendErr}
		}
	}
	if e.trailer != nil {
		e.call.SetTrailer(e.trailer)
	}
	return err
}

// free gives up what was kept.
func (e *heldExchange) free() {
	e.request.Free()
	e.answer.Free()
}
