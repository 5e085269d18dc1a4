package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/routes"
)

// jsonPeer is one HTTP/JSON caller. What it sends is one body that is one
// message, or an upload of many; what it gets is one answer, or a stream of
// them.
//
// recvMsg, and what it uses, may run beside the rest; see [Call].
type jsonPeer struct {
	call  Call
	front *jsonFront
	w     http.ResponseWriter
	r     *http.Request
	match routes.Match

	received bool          // recvMsg: the one request message was given out
	message  [1]mem.Buffer // recvMsg: room for it
	upload   *jsonUpload   // serve: where the caller streams

	header     metadata.MD // sendHeader
	trailer    metadata.MD // setTrailer
	answer     *[]byte     // sendMsg: the one answer; or sendAll
	lists      bool        // sendAll: the answer is the list of a failed call
	answerType string      // sendMsg: the media type of a raw answer; empty: it is JSON
	stream     *jsonStream // serve: where the backend streams
	length     [1]string   // writeWhole: the Content-Length header
	broken     atomic.Bool // a write failed: the caller cannot be reached any more
}

// giveBack puts a buffer back that was written from; see [buffers.Put].
func (p *jsonPeer) giveBack(buf *[]byte) {
	if !p.broken.Load() {
		p.front.buffers.Put(buf)
	}
}

// prepare makes what a streaming route needs, and gives the context for the call
// and what must run when the answer is written, however that ends.
func (p *jsonPeer) prepare() (context.Context, func()) {
	request := p.r.Context()
	var (
		ctx    context.Context
		cancel context.CancelCauseFunc
		stop   = func() bool { return true }
	)
	if p.match.Route.ClientStreams {
		p.upload = newJSONUpload(p)
		ctx, cancel, stop = p.upload.watch(request)
	} else {
		ctx, cancel = context.WithCancelCause(request)
	}
	if p.match.Route.ServerStreams {
		p.stream = newJSONStream(p, cancel)
	}
	return ctx, func() {
		stop()
		cancel(nil)
		if p.upload != nil {
			p.upload.close()
		}
		if p.stream != nil {
			p.stream.stop()
		}
	}
}

func (p *jsonPeer) asked() (verb, method string) { return p.r.Method, p.r.URL.Path }

func (p *jsonPeer) recvMsg() (mem.BufferSlice, error) {
	if p.stream != nil {
		p.stream.admitted.Store(true)
	}
	if p.upload != nil {
		return p.upload.recv()
	}
	if p.received {
		return nil, io.EOF
	}
	p.received = true
	return p.recvOnly()
}

func (p *jsonPeer) sendHeader(md metadata.MD) error {
	if p.stream != nil {
		p.stream.setHeader(md)
		return nil
	}
	p.header = md
	return nil
}

func (p *jsonPeer) note(md metadata.MD) {
	if p.stream != nil {
		p.stream.setHeader(md)
		return
	}
	p.header = md
}

func (p *jsonPeer) setTrailer(md metadata.MD) { p.trailer = md }

func (p *jsonPeer) sendMsg(msg mem.BufferSlice) error {
	defer func() {
		if !p.broken.Load() { // its buffers are from a pool, too; see buffers.Put
			msg.Free()
		}
	}()
	pool := p.front.buffers
	wire, lent := pool.joined(msg)
	defer p.giveBack(lent)
	out := pool.room(2 * len(wire))
	if p.stream != nil {
		defer p.giveBack(out)
		return p.stream.send(out, wire)
	}
	if err := p.appendAnswer(out, wire); err != nil {
		pool.Put(out)
		return err
	}
	p.answer = out
	return nil
}

// finish ends the answer with the pipeline's outcome.
func (p *jsonPeer) finish(err error) {
	if p.answer != nil {
		defer p.giveBack(p.answer)
	}
	failure := describe(err)
	switch {
	case p.stream != nil && p.stream.finish(failure):
	case failure != nil:
		p.writeFailure(failure)
	default:
		p.writeAnswer()
	}
}

// takeLeave has callers over HTTP/1.1 look for another connection once the stop
// has begun ([farewells] is for those over HTTP/2): http.Server.Shutdown closes
// idle ones without a word, and a request may be on its way there. And who is
// answered before his upload is over must not reuse its connection: what is left
// of it would be in the way.
func (p *jsonPeer) takeLeave(h http.Header) {
	if p.r.ProtoMajor == 1 && (!p.front.g.ready.on.Load() || p.upload != nil && !p.upload.ended.Load()) {
		h.Set("Connection", "close")
	}
}

func acceptsTrailers(r *http.Request) bool {
	return r.ProtoAtLeast(1, 1) && strings.Contains(strings.ToLower(r.Header.Get("Te")), "trailers")
}
