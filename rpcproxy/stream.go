package rpcproxy

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// stream pumps messages both ways until the backend ends the call, the caller
// goes away, or the time is up. One message at a time is under way in each
// direction, so that a slow reader slows the writer down.
//
// Responses are pumped on the caller's goroutine, requests on another where the
// caller streams. That one has no owner that waits for it: it may sit in the
// exchange's RecvMsg, which only the end of Forward, and so of the caller's
// stream, unblocks. Anything else it does ends with ctx.
func (a *attempt) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	desc := &grpc.StreamDesc{ClientStreams: a.call.request.ClientStreams, ServerStreams: a.call.request.ServerStreams}
	s, err := a.lease.Conn().NewStream(ctx, desc, a.call.request.Method, a.callOptions()...)
	if err != nil {
		return a.fail(ctx, err)
	}
	if a.call.request.ClientStreams {
		go a.pumpRequests(ctx, s, cancel)
	} else {
		a.in.Data = a.call.in
		if err := s.SendMsg(&a.in); err != nil { // half-closes, too
			return a.fail(ctx, err)
		}
	}
	if err := a.pumpResponses(s); !errors.Is(err, io.EOF) {
		return a.ended(ctx, s, err)
	}
	a.call.ex.SetTrailer(tidyTrailer(s.Trailer(), nil))
	return nil
}

// ended makes of the error that ended the response side the one that Forward
// returns.
func (a *attempt) ended(ctx context.Context, s grpc.ClientStream, err error) error {
	if exchange, ok := errors.AsType[*ExchangeError](err); ok {
		return a.exchangeFailed(exchange) // the trailer is not to be touched: the stream still runs
	}
	if !strings.HasPrefix(status.Convert(err).Message(), cardinality) {
		a.trailer = s.Trailer() // with one message too many, grpc-go leaves the stream running
	}
	err = a.fail(ctx, err)
	if answered, ok := errors.AsType[*StatusError](err); ok {
		a.call.ex.SetTrailer(tidyTrailer(a.trailer, answered.Status))
	}
	return err
}

// pumpRequests sends the caller's messages on, and its half-close. A failure of
// the exchange ends the call with that as the cause.
func (a *attempt) pumpRequests(ctx context.Context, s grpc.ClientStream, cancel context.CancelCauseFunc) {
	for ctx.Err() == nil {
		msg, err := a.call.ex.RecvMsg()
		if errors.Is(err, io.EOF) {
			a.call.sent.Store(true)
			_ = s.CloseSend() // always nil
			return
		}
		if err != nil {
			cancel(&ExchangeError{Err: err})
			return
		}
		frame := Frame{Data: msg}
		err = s.SendMsg(&frame)
		frame.Free()
		if err != nil {
			return // the stream is over; RecvMsg gives its status
		}
	}
}

// pumpResponses gives the exchange what the backend answers. It returns io.EOF
// after an OK status, and an *[ExchangeError] if the exchange failed.
func (a *attempt) pumpResponses(s grpc.ClientStream) error {
	// Headers go out as they come, be there a message or not. With none, which
	// is no error, RecvMsg gives the status.
	header, err := s.Header()
	if err != nil {
		return err
	}
	if header != nil {
		a.header = header
		a.call.pass.Progress()
		if err := a.call.ex.SendHeader(tidyHeader(header)); err != nil {
			return &ExchangeError{Err: err}
		}
	}
	for {
		if err := s.RecvMsg(&a.out); err != nil {
			a.out.Free()
			return err
		}
		if err := a.call.ex.SendMsg(a.out.Take()); err != nil {
			return &ExchangeError{Err: err}
		}
		if !a.call.request.ServerStreams {
			return io.EOF // RecvMsg has seen the status
		}
	}
}
