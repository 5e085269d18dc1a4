package gateway

import (
	"bytes"
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/telemetry"
)

// Call is one request on its way through, the same type whichever protocol it
// came in by. The front end fills it before the pipeline runs; after that each
// field has the one writer named beside it.
//
// A Call is the [rpcproxy.Exchange] of its request: RecvMsg may run beside
// SendHeader, SendMsg and SetTrailer, which run one at a time.
type Call struct {
	Protocol   protocol        // front
	Route      *routes.Route   // front; nil when nothing matched
	Metadata   metadata.MD     // front: what goes to the backend, already filtered
	RequestID  string          // front
	ClientIP   string          // front
	Start      time.Time       // front
	Deadline   time.Time       // front: the caller's; zero when it named none
	Credential auth.Credential // front
	Refusal    error           // front: why there is no usable Credential
	Malformed  error           // front: what is wrong with the request besides
	Principal  *auth.Principal // authenticate; nil on routes without auth

	rules   *headerRules     // front: the route's; nil: none
	peer    peer             // front: the caller's side, in its protocol
	request rpcproxy.Request // dispatch; its Compressor: front
	out     dispatched       // dispatch and what is in it; its begun: SendHeader
	traffic traffic          // the Exchange methods
	ticket  limits.Ticket    // enter, admit
	bound   bounded          // bound
	turns   *turns           // enter; nil: nothing waits
	held    heldBytes        // admit

	// The front end answers after the pipeline, and has the call leave then.
	answered bool // front

	length  int64   // front: of the body, as its caller says; 0, or below: it is not known, or too large
	limited limited // limit
}

// peer is the caller's side of a call in its own protocol.
type peer interface {
	recvMsg() (mem.BufferSlice, error)
	sendHeader(metadata.MD) error
	sendMsg(mem.BufferSlice) error
	setTrailer(metadata.MD)
	// note is for what the gateway itself says beside a failure, of a call that
	// got no header.
	note(metadata.MD)
	asked() (verb, method string) // what was asked for, for the log; no verb but in HTTP
}

// traffic counts protobuf bytes, and keeps the first of them where a route
// wants bodies in its log. It bears readers beside its writers: one RecvMsg may
// still run when the call is over and logged.
type traffic struct {
	in, out atomic.Int64

	mu                sync.Mutex // guards the bodies
	request, response []byte
}

// bodies returns copies of what was kept.
func (t *traffic) bodies() (request, response []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.request), bytes.Clone(t.response)
}

func (t *traffic) keep(dst *[]byte, msg mem.BufferSlice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range msg {
		room := telemetry.MaxLoggedBody + 1 - len(*dst) // one more tells that there was more
		if room <= 0 {
			break
		}
		data := b.ReadOnlyData()
		*dst = append(*dst, data[:min(room, len(data))]...)
	}
}

var _ rpcproxy.Exchange = (*Call)(nil)

// RecvMsg returns the caller's next message as protobuf bytes, io.EOF after
// the last one.
func (c *Call) RecvMsg() (msg mem.BufferSlice, err error) {
	defer recoverTo(&err)
	if err := c.held.announced(c.toHold()); err != nil {
		return nil, err
	}
	msg, err = c.peer.recvMsg()
	if err == nil {
		if err := c.held.received(int64(msg.Len()), c.Route.ClientStreams); err != nil {
			msg.Free()
			return nil, err
		}
		c.traffic.in.Add(int64(msg.Len()))
		if c.Route.LogBodies {
			c.traffic.keep(&c.traffic.request, msg)
		}
		return msg, nil
	}
	return msg, c.overBody(err)
}

// SendHeader passes the backend's header on to the caller, as the route's rules
// have it.
func (c *Call) SendHeader(md metadata.MD) (err error) {
	defer recoverTo(&err)
	rules := c.rules.forResponse()
	c.out.begun = true
	return c.peer.sendHeader(c.mark(rules.applySet(rules.apply(withoutOwn(md)))))
}

// SendMsg passes one of the backend's messages on to the caller, and takes
// ownership of it.
func (c *Call) SendMsg(msg mem.BufferSlice) (err error) {
	defer recoverTo(&err)
	c.traffic.out.Add(int64(msg.Len()))
	c.held.answers(msg, c.hasJSON())
	c.waitToAnswer(msg)
	if c.Route.LogBodies {
		c.traffic.keep(&c.traffic.response, msg)
	}
	return c.peer.sendMsg(msg)
}

// SetTrailer keeps the backend's trailer for the end of the answer, as the
// route's rules have it.
func (c *Call) SetTrailer(md metadata.MD) {
	c.peer.setTrailer(c.rules.forResponse().apply(withoutOwn(md)))
}

// panicError is a panic that became the failure of one call.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return "panic while serving the call" }

// recoverTo turns a panic into an error. The Exchange methods need it besides
// the pipeline's own recover step, since on the stream road they run on
// goroutines that are not the pipeline's.
func recoverTo(err *error) {
	if v := recover(); v != nil {
		*err = &panicError{value: v, stack: debug.Stack()}
	}
}

// Handler serves one call. Its error is what errors.go's table describes.
type Handler func(ctx context.Context, c *Call) error
