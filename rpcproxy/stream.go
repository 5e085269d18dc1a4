package rpcproxy

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// stream pumps messages both ways until the backend ends the call, the caller
// goes away, or the time is up. One message at a time is under way in each
// direction, so that a slow reader slows the writer down. It returns io.EOF
// after an OK status.
//
// Responses are pumped on the caller's goroutine, requests on another where the
// caller streams. That one has no owner that waits for it: it may sit in the
// exchange's RecvMsg, which only the end of Forward, and so of the caller's
// stream, unblocks. Anything else it does ends with the stream.
func (a *attempt) stream(ctx context.Context) error {
	c := a.call
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	desc := &grpc.StreamDesc{ClientStreams: c.request.ClientStreams, ServerStreams: c.request.ServerStreams}
	s, err := a.lease.Conn().NewStream(ctx, desc, c.request.Method, a.callOptions()...)
	if err != nil {
		return a.fail(ctx, err)
	}
	if c.request.ClientStreams {
		c.replay.attach(s, cancel)
		defer c.replay.detach(s)
	} else {
		a.in.Data = c.in
		if err := s.SendMsg(&a.in); err != nil { // half-closes, too
			a.notePeer(s)
			return a.fail(ctx, err)
		}
	}
	err = a.pumpResponses(s)
	if a.header == nil {
		a.notePeer(s)
	}
	if exchange, ok := errors.AsType[*ExchangeError](err); ok {
		return a.exchangeFailed(exchange) // the trailer is not to be touched: the stream still runs
	}
	if !strings.HasPrefix(status.Convert(err).Message(), cardinality) {
		a.trailer = s.Trailer() // with one message too many, grpc-go leaves the stream running
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return a.fail(ctx, err)
}

// notePeer takes down where the stream went, if it got so far. It is for after
// the header or the end: before, it would keep grpc-go from sending again what was
// left out.
func (a *attempt) notePeer(s grpc.ClientStream) {
	if p, ok := peer.FromContext(s.Context()); ok {
		a.peer = *p
	}
}

// endStream gives the exchange what is left of the answer.
func (a *attempt) endStream(err error) error {
	answered, _ := errors.AsType[*StatusError](err)
	switch {
	case err == nil:
		a.call.ex.SetTrailer(tidyTrailer(a.trailer, nil))
	case answered != nil:
		a.call.ex.SetTrailer(tidyTrailer(a.trailer, answered.Status))
	}
	return err
}

// pumpResponses gives the exchange what the backend answers. It returns io.EOF
// after an OK status, and an *[ExchangeError] if the exchange failed.
func (a *attempt) pumpResponses(s grpc.ClientStream) error {
	c := a.call
	// Headers go out as they come, be there a message or not. With none, which
	// is no error, RecvMsg gives the status.
	header, err := s.Header()
	if err != nil {
		return err
	}
	if header != nil {
		a.header = header
		a.notePeer(s)
		c.pass.Progress()
		c.backend.fleet.Progress(&a.choice)
		if c.replay != nil {
			c.replay.commit()
		}
		c.note(a)
		if err := c.ex.SendHeader(tidyHeader(header)); err != nil {
			return &ExchangeError{Err: err}
		}
	}
	for {
		if err := s.RecvMsg(&a.out); err != nil {
			a.out.Free()
			return err
		}
		if err := c.ex.SendMsg(a.out.Take()); err != nil {
			return &ExchangeError{Err: err}
		}
		if !c.request.ServerStreams {
			return io.EOF // RecvMsg has seen the status
		}
	}
}
