package rpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// attempt is one try at a call, from the request to the backend's status. It
// is one allocation that holds all that grpc-go is given the address of.
type attempt struct {
	backend *Backend
	method  *method
	request *Request
	ex      Exchange
	caller  context.Context // as given to Forward: done when the caller is gone

	pass  breaker.Pass // guard
	limit limit        // restrict
	lease Lease        // send

	in, out Frame
	// What came from the backend: the header (nil: none) and the trailer (empty:
	// none); and the other end, if the call got as far as a connection.
	header, trailer metadata.MD
	peer            peer.Peer
	// Stream road: the caller has sent all it wants to.
	sent atomic.Bool

	options [8]grpc.CallOption
}

// limit is how long an attempt may take.
type limit struct {
	timeout  time.Duration // before the reserve; 0: as long as it wants
	reserve  time.Duration // what is kept back of it
	byCaller bool          // the caller's deadline comes first
}

func (a *attempt) streams() bool { return a.request.ClientStreams || a.request.ServerStreams }

// callOptions are those of this attempt. The backend's own ones are copied, for
// they are shared.
func (a *attempt) callOptions() []grpc.CallOption {
	o := append(a.options[:0], a.backend.callOptions...)
	o = append(o, grpc.Peer(&a.peer))
	if !a.streams() {
		o = append(o, grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	}
	if c := a.request.Compressor; c != "" && c != "identity" {
		o = append(o, grpc.UseCompressor(c))
	}
	return o
}

// fail makes of an error of grpc-go the one that Forward returns. ctx is the
// attempt's.
func (a *attempt) fail(ctx context.Context, err error) error {
	s := status.Convert(err)
	if errors.Is(err, io.EOF) {
		// grpc-go repeats by itself a call that a GOAWAY left out, and says this
		// when the connection breaks meanwhile.
		s = status.New(codes.Unavailable, "the connection was lost")
		err = s.Err()
	} else if fromBackend(s, a.header, a.trailer) {
		return &StatusError{Status: s}
	}
	if exchange, ok := errors.AsType[*ExchangeError](context.Cause(ctx)); ok {
		return a.exchangeFailed(exchange)
	}
	if errors.Is(a.caller.Err(), context.Canceled) {
		return errCallerGone(a.caller)
	}
	if s.Code() == codes.DeadlineExceeded || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return a.timedOut()
	}
	if why := a.lease.ended(); why != "" {
		return a.cutOff(why)
	}
	if s.Code() == codes.Unavailable {
		return &UnreachableError{Backend: a.backend.name, Target: a.backend.target, Sent: a.peer.Addr != nil, Cause: err}
	}
	return &LocalError{Backend: a.backend.name, Status: status.New(s.Code(), withoutBody(s.Message()))}
}

// exchangeFailed is for an error of the exchange. What the exchange says when
// the caller is gone, or its time is up, differs between protocols. It is kept
// beside Canceled, because net/http takes a request whose body fails for one
// whose caller is gone, while the caller waits to be told.
func (a *attempt) exchangeFailed(e *ExchangeError) error {
	switch a.caller.Err() {
	case nil:
		return e
	case context.Canceled:
		return fmt.Errorf("%w: %w", errCallerGone(a.caller), e)
	default:
		a.limit.byCaller = true
		return a.timedOut()
	}
}

// cutOff is for a connection that was closed on purpose with the call on it.
func (a *attempt) cutOff(why reason) error {
	code, cause := codes.Unavailable, ErrDrained
	switch why {
	case reasonRevoked:
		code, cause = codes.Unauthenticated, ErrRevoked
	case reasonShutdown:
		cause = ErrClosed
	case reasonEvicted, reasonIdle:
	}
	return &LocalError{Backend: a.backend.name, Status: status.New(code, cause.Error()), Cause: cause}
}

// timedOut says whose time was up, and whether it went by without a connection.
func (a *attempt) timedOut() error {
	limit := a.limit.timeout
	if a.limit.byCaller {
		limit = roundLimit(limit)
	}
	return &TimeoutError{
		Backend:        a.backend.name,
		Limit:          limit,
		CallerDeadline: a.limit.byCaller,
		Unsent:         a.lease.entry == nil,
		Connecting:     a.peer.Addr == nil && a.lease.entry != nil && a.lease.Conn().GetState() != connectivity.Ready,
	}
}

// roundLimit makes of what was left until a deadline a duration to be read by
// people.
func roundLimit(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= 10*time.Microsecond:
		return d.Round(10 * time.Microsecond)
	default:
		return d
	}
}

// errCallerGone keeps what the caller's context says beside Canceled.
func errCallerGone(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("caller went away: %w: %w", context.Canceled, cause)
	}
	return fmt.Errorf("caller went away: %w", context.Canceled)
}

// receiveOnly takes the one request message of a call whose caller does not
// stream.
func (a *attempt) receiveOnly() error {
	msg, err := a.ex.RecvMsg()
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("no request message: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return a.exchangeFailed(&ExchangeError{Err: err})
	}
	a.in.Data = msg
	return nil
}

// usualPairs is how many strings the metadata of most calls is, keys and values.
const usualPairs = 32

// outgoing is the context that carries what goes out beside the messages. The
// credential is the call's own, sent as metadata app and token, as zRPC's
// clients do: no connection holds one that it could put on another's call. It is
// never in the request's metadata. (Per-RPC credentials of grpc-go would cost a
// map and an audience for each call.)
//
// All goes as pairs: grpc-go walks through what it is given three times, which
// for a map is the dearer part of it.
func (a *attempt) outgoing(ctx context.Context) context.Context {
	ctx = withToldDeadline(ctx, a.limit.reserve)
	var room [usualPairs]string
	pairs := room[:0]
	for key, values := range a.request.Metadata {
		for _, value := range values {
			pairs = append(pairs, key, value)
		}
	}
	if c := a.request.Credential; a.backend.attach && !c.IsZero() {
		pairs = append(pairs, "app", c.App, "token", c.Token)
	}
	if len(pairs) > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
	}
	if a.backend.markStreams && a.streams() {
		ctx = balancer.WithStream(ctx)
	}
	return a.backend.withHashKey(ctx, a.request.Credential.App)
}

// tidyHeader takes out of a header what belongs to the connection. The map is
// a copy of our own.
func tidyHeader(md metadata.MD) metadata.MD {
	delete(md, "content-type")
	return md
}

// tidyTrailer is tidyHeader for a trailer. The details of a status are in the
// status, if they could be understood.
func tidyTrailer(md metadata.MD, s *status.Status) metadata.MD {
	if len(s.Proto().GetDetails()) > 0 {
		delete(md, "grpc-status-details-bin")
	}
	return tidyHeader(md)
}
