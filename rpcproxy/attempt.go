package rpcproxy

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// attempt is one try at a call, from the choice of an endpoint to the
// backend's status. It holds all that grpc-go is given the address of.
type attempt struct {
	call *call

	limit  limit
	lease  Lease
	ctx    attemptContext // outgoing
	choice fleet.Choice   // outgoing; the balancer's during the attempt

	in, out Frame // in is the call's message, on the unary road
	// What came from the backend: the header (nil: none) and the trailer (empty:
	// none); and the other end, if the attempt got as far as a connection.
	header, trailer metadata.MD
	peer            peer.Peer

	options [8]grpc.CallOption
}

// try makes the attempt, counts it, and tells the fleet how its endpoint did.
func (a *attempt) try(ctx context.Context) error {
	start := time.Now()
	err := a.send(ctx)
	took := time.Since(start)
	a.call.method.count(codeOf(err), took)
	if a.call.streams() {
		took = 0
	}
	b := a.call.backend
	b.fleet.Done(&a.choice, fleetOutcome(a.outcome(err)), took)
	if a.call.request.Endpoint == "" {
		b.noteReach(err)
	}
	return err
}

// send acquires a connection and takes the unary or the stream road.
func (a *attempt) send(ctx context.Context) error {
	c := a.call
	lease, err := c.backend.acquire(ctx, c.request)
	if err != nil {
		return a.notAcquired(ctx, err)
	}
	a.lease = lease
	defer lease.Release()
	if r := c.request.Revocable; r != nil && r.Revoked() {
		// The connection may have been made after the pool was told.
		lease.entry.pool.retireRevoked(lease)
		return a.cutOff(reasonRevoked)
	}
	ctx = a.outgoing(ctx)
	if c.streams() {
		return a.stream(ctx)
	}
	return a.unary(ctx)
}

func (a *attempt) notAcquired(ctx context.Context, err error) error {
	b := a.call.backend
	switch {
	case errors.Is(err, ErrPoolFull):
		return &LocalError{Backend: b.name, Status: status.New(codes.ResourceExhausted, err.Error()), Cause: err}
	case errors.Is(err, ErrClosed):
		return &LocalError{Backend: b.name, Status: status.New(codes.Unavailable, err.Error()), Cause: err}
	case ctx.Err() != nil:
		return a.fail(ctx, status.FromContextError(ctx.Err()).Err())
	default:
		return &UnreachableError{Backend: b.name, Target: b.target, Cause: err}
	}
}

// callOptions are those of this attempt. The backend's own ones are copied, for
// they are shared.
func (a *attempt) callOptions() []grpc.CallOption {
	o := append(a.options[:0], a.call.backend.callOptions...)
	o = append(o, grpc.Peer(&a.peer))
	if !a.call.streams() {
		o = append(o, grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	}
	if c := a.call.request.Compressor; c != "" && c != "identity" {
		o = append(o, grpc.UseCompressor(c))
	}
	return o
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
	b, r := a.call.backend, a.call.request
	a.choose()
	a.ctx = attemptContext{Context: ctx, step: a.limit.reserve, choice: &a.choice}
	ctx = &a.ctx
	var room [usualPairs]string
	pairs := room[:0]
	for key, values := range r.Metadata {
		for _, value := range values {
			pairs = append(pairs, key, value)
		}
	}
	if c := r.Credential; b.attach && !c.IsZero() {
		pairs = append(pairs, "app", c.App, "token", c.Token)
	}
	if len(pairs) > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
	}
	return ctx
}

// choose says what the attempt wants of its endpoint.
func (a *attempt) choose() {
	r := a.call.request
	a.choice.Stream = a.call.streams()
	a.choice.Filter = r.Filter
	if !a.call.backend.hashKeys {
		return
	}
	key := r.HashKey
	if r.HashOf != nil && key == "" && !r.ClientStreams {
		key = r.HashOf(a.call.in)
	}
	if header := a.call.backend.hashHeader; key == "" && header != "" {
		if values := r.Metadata[header]; len(values) > 0 {
			key = values[0]
		}
	}
	if key == "" {
		key = r.Credential.App
	}
	if key != "" {
		a.choice.Key, a.choice.Keyed = fleet.HashKey(key), true
	}
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
