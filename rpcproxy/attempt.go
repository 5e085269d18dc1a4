package rpcproxy

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// attempt is one try at a call, from the choice of an endpoint to the
// backend's status. It holds all that grpc-go is given the address of.
type attempt struct {
	call     *call
	previous int  // attempts before it that the backend may know of
	more     bool // another one may follow it

	limit limit
	// Where the limit is the attempt's own: when it is up.
	deadline time.Time
	lease    Lease
	ctx      attemptContext // outgoing
	choice   fleet.Choice   // outgoing; the balancer's during the attempt

	in, out Frame // in is the call's message, on the unary road
	// What came from the backend: the header (nil: none) and the trailer (empty:
	// none); and the other end, if the attempt got as far as a connection.
	header, trailer metadata.MD
	peer            peer.Peer
	// Once it has ended: the endpoint it went to, if the fleet chose it; and
	// whether the backend's application may know of it.
	endpoint *fleet.Endpoint
	reached  bool
	// On the unary road, of an attempt that failed: a response message came.
	answered bool

	options [8]grpc.CallOption
}

// try makes the attempt, counts it, and tells the fleet how its endpoint did.
func (a *attempt) try(ctx context.Context) error {
	c := a.call
	b := c.backend
	start := time.Now()
	a.limit = c.limit
	// Without another attempt to follow, cutting this one off would help nobody.
	if t := b.retrier.attemptTimeout; t > 0 && !c.streams() && c.idempotent && a.more {
		deadline, ok := ctx.Deadline()
		if own := start.Add(t); !ok || own.Before(deadline) {
			limited, cancel := context.WithDeadline(ctx, own)
			defer cancel()
			ctx = limited
			a.limit = limit{timeout: t, reserve: c.limit.reserve, ofAttempt: true}
			a.deadline = own
		}
	}
	outcome, took := fleet.Ignored, time.Duration(0) // should the exchange panic
	defer func() { b.fleet.Done(&a.choice, outcome, took) }()
	err := b.retrier.send(a, ctx)
	took = time.Since(start)
	c.method.count(codeOf(err), took)
	if c.streams() {
		took = 0
	} else if err == nil {
		c.method.usual.observe(took)
		if b.retrier.hedge.Enabled {
			c.method.slow.observe(took)
		}
	}
	a.endpoint = a.choice.Endpoint
	outcome = a.endpointOutcome(err)
	if a.call.request.Endpoint == "" {
		b.noteReach(err)
	}
	return err
}

// endpointOutcome is what an attempt says about its endpoint: what it says about
// the backend; but an endpoint that is about to go may go in peace, and come back
// under the same address.
func (a *attempt) endpointOutcome(err error) fleet.Outcome {
	if lost, ok := errors.AsType[*UnreachableError](err); ok && !lost.Sent && !isRefusal(status.Convert(lost.Cause)) {
		return fleet.Ignored
	}
	switch a.outcome(err) {
	case breaker.Success:
		return fleet.Success
	case breaker.Failure:
		return fleet.Failure
	default:
		return fleet.Ignored
	}
}

// expired tells of an attempt that has ended whether that was about when its own
// limit was up. The backend is told the limit, and may be the first to notice.
func (a *attempt) expired() bool {
	return a.limit.ofAttempt && !time.Now().Add(a.limit.reserve).Before(a.deadline)
}

// address is where the attempt went; empty: nowhere.
func (a *attempt) address() string {
	switch {
	case a.call.request.Endpoint != "":
		return a.call.request.Endpoint
	case a.endpoint != nil:
		return a.endpoint.Address()
	case a.choice.Endpoint != nil: // it goes on
		return a.choice.Endpoint.Address()
	case a.peer.Addr != nil:
		return a.peer.Addr.String()
	default:
		return ""
	}
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
	if !a.call.streams() { // of streams grpc-go writes them at the end, in a goroutine of its own
		o = append(o, grpc.Peer(&a.peer), grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	}
	if a.call.mayRepeat() {
		o = append(o, a.call.backend.repeatsHere)
	}
	if c := a.call.request.Compressor; c != "" && c != "identity" {
		o = append(o, grpc.UseCompressor(c))
	}
	return o
}

// previousKey is the metadata by which a server is told how many attempts there
// were before, of which it may know: gRFC A6.
const previousKey = "grpc-previous-rpc-attempts"

// previousAttempts counts those of the caller, who may retry as well, among them.
func previousAttempts(callers []string, n int) string {
	if len(callers) == 1 {
		if m, err := strconv.ParseUint(callers[0], 10, 16); err == nil {
			n += int(m)
		}
	}
	return strconv.Itoa(n)
}

// usualPairs is how many strings the metadata of most calls is, keys and values.
const usualPairs = 40

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
		if key == previousKey && a.previous > 0 {
			continue
		}
		for _, value := range values {
			pairs = append(pairs, key, value)
		}
	}
	if n := a.previous; n > 0 {
		pairs = append(pairs, previousKey, previousAttempts(r.Metadata[previousKey], n))
	}
	pairs = append(pairs, r.Identity...)
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
	a.choice.Stream = a.call.streams()
	a.choice.Filter = a.call.request.Filter
	a.choice.Key, a.choice.Keyed = a.call.key, a.call.keyed
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
