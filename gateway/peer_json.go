package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/transcode"
)

// jsonPeer is one HTTP/JSON caller. A unary answer is held until the backend's
// status is known, so that its HTTP status is always the real one; a stream is
// committed to 200 by its first message.
type jsonPeer struct {
	call  Call
	front *jsonFront
	w     http.ResponseWriter
	r     *http.Request
	match routes.Match

	received  bool        // recvMsg: the one request message was given out
	header    metadata.MD // sendHeader
	trailer   metadata.MD // setTrailer
	answer    *[]byte     // sendMsg: the unary answer as JSON
	committed bool        // sendMsg: a stream's status line is out
}

func (p *jsonPeer) asked() (verb, method string) { return p.r.Method, p.r.URL.Path }

func (p *jsonPeer) recvMsg() (mem.BufferSlice, error) {
	if p.received {
		return nil, io.EOF
	}
	p.received = true
	in := transcode.Input{Query: p.r.URL.RawQuery, Vars: p.match.Vars}
	t := p.match.Route.Transcoder
	pool := p.front.buffers
	body := pool.Get(0)
	defer pool.Put(body)
	// A body that the route has no use for is read all the same: only then
	// does net/http notice a caller that hangs up.
	var err error
	*body, err = readBody(p.w, p.r, *body, int64(p.front.cfg.MaxBodySize))
	if err != nil {
		return nil, err
	}
	if p.match.Route.Body != "" {
		in.Body = *body
	}
	msg := pool.Get(0)
	wire, err := t.AppendRequest(*msg, in)
	if err != nil {
		pool.Put(msg)
		return nil, err
	}
	*msg = wire
	return mem.BufferSlice{mem.NewBuffer(msg, pool)}, nil
}

func (p *jsonPeer) sendHeader(md metadata.MD) error {
	p.header = md
	return nil
}

func (p *jsonPeer) setTrailer(md metadata.MD) { p.trailer = md }

func (p *jsonPeer) sendMsg(msg mem.BufferSlice) error {
	defer msg.Free()
	pool := p.front.buffers
	var wire []byte
	if len(msg) == 1 {
		wire = msg[0].ReadOnlyData()
	} else {
		joined := pool.Get(msg.Len())
		defer pool.Put(joined)
		msg.CopyTo(*joined)
		wire = *joined
	}
	out := pool.Get(0)
	json, err := p.match.Route.Transcoder.AppendResponse(*out, wire)
	*out = json
	if err != nil {
		pool.Put(out)
		if errors.Is(err, transcode.ErrResponseTooLarge) {
			return &callError{
				Code: codes.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE", httpStatus: http.StatusBadGateway, cause: err,
				Message: "the backend's answer is too large as JSON",
			}
		}
		return &callError{
			Code: codes.Internal, Reason: "BAD_RESPONSE", cause: err,
			Message: "the backend's answer does not fit its descriptor",
		}
	}
	if !p.match.Route.ServerStreams {
		p.answer = out
		return nil
	}
	defer pool.Put(out)
	*out = append(*out, '\n')
	return p.writeLine(*out)
}

// writeLine writes one line of a stream and pushes it out at once.
func (p *jsonPeer) writeLine(line []byte) error {
	if !p.committed {
		p.commitStream()
	}
	// Lifted in the end: on HTTP/2 a limit that runs out resets the stream,
	// whether something is being written or not.
	p.limitWrite()
	defer func() { _ = http.NewResponseController(p.w).SetWriteDeadline(time.Time{}) }()
	_, err := p.w.Write(line)
	if err == nil {
		err = http.NewResponseController(p.w).Flush() // where most failures show
	}
	if err != nil {
		return errors.Join(context.Canceled, err) // the caller hung up, or does not read
	}
	return nil
}

// limitWrite bounds how long the caller may take to read what is written next.
// At the end of an answer it stays: net/http flushes what it buffered after the
// handler has returned, and that waits for callers who do not read, too.
func (p *jsonPeer) limitWrite() {
	if timeout := p.front.cfg.WriteTimeout; timeout > 0 {
		_ = http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(timeout)) // net/http's writers can
	}
}

func (p *jsonPeer) commitStream() {
	p.committed = true
	h := p.w.Header()
	addMetadata(h, metadataPrefix, p.header, p.call.rules.forResponse())
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("X-Content-Type-Options", "nosniff")
	p.takeLeave(h)
	p.w.WriteHeader(http.StatusOK)
}

// takeLeave has callers look for another connection once the stop has begun
// (net/http makes a GOAWAY of it on HTTP/2): http.Server.Shutdown closes idle
// ones without a word, and a request may be on its way there.
func (p *jsonPeer) takeLeave(h http.Header) {
	if !p.front.g.ready.on.Load() {
		h.Set("Connection", "close")
	}
}

// finish ends the answer with the pipeline's outcome.
func (p *jsonPeer) finish(err error) {
	failure := describe(err)
	switch {
	case p.committed:
		p.finishStream(failure)
	case failure != nil:
		p.writeFailure(failure)
	case p.match.Route.ServerStreams: // a stream without a message
		p.commitStream()
		p.finishStream(nil)
	default:
		p.writeAnswer()
	}
	if p.answer != nil {
		p.front.buffers.Put(p.answer)
	}
}

func (p *jsonPeer) writeAnswer() {
	h := p.w.Header()
	addMetadata(h, metadataPrefix, p.header, p.call.rules.forResponse())
	h["Content-Type"] = jsonContentType()
	var body []byte
	if p.answer != nil {
		body = *p.answer
	}
	p.writeWhole(http.StatusOK, body)
}

func (p *jsonPeer) writeFailure(failure *callError) {
	h := p.w.Header()
	addMetadata(h, metadataPrefix, p.header, p.call.rules.forResponse())
	failure.writeHints(h)
	format := p.front.errorFormat(p.call.Route)
	h.Set("Content-Type", format.contentType())
	h.Set("X-Content-Type-Options", "nosniff")
	buf := p.front.buffers.Get(0)
	defer p.front.buffers.Put(buf)
	*buf = appendFailure(*buf, failure, p.call.Route, format)
	p.writeWhole(failure.HTTPStatus(), *buf)
}

func jsonContentType() []string { return []string{"application/json"} }

// writeWhole writes an answer that is known to its end. Its trailers go out as
// HTTP trailers to callers that say they read them, and among the headers to
// all others: nothing was sent yet, so nothing need be lost.
func (p *jsonPeer) writeWhole(code int, body []byte) {
	h := p.w.Header()
	if len(p.trailer) > 0 && acceptsTrailers(p.r) {
		addMetadata(h, http.TrailerPrefix+trailerPrefix, p.trailer, p.call.rules.forResponse())
	} else {
		addMetadata(h, trailerPrefix, p.trailer, p.call.rules.forResponse())
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	p.takeLeave(h)
	p.w.WriteHeader(code)
	p.limitWrite()
	_, _ = p.w.Write(body) // the caller may be gone; there is nobody to tell
}

// finishGRPC answers a gRPC caller that came to the wrong port in gRPC's words.
func (p *jsonPeer) finishGRPC(err error) {
	failure := describe(err)
	h := p.w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(failure.Code)))
	h.Set("Grpc-Message", failure.Message)
	p.w.WriteHeader(http.StatusOK)
}

// finishStream ends a stream whose status line is out: its status goes into
// the trailers, and a failure into a last line as well.
func (p *jsonPeer) finishStream(failure *callError) {
	h := p.w.Header()
	addMetadata(h, http.TrailerPrefix+trailerPrefix, p.trailer, p.call.rules.forResponse())
	code, message := codes.OK, ""
	if failure != nil {
		code, message = failure.Code, failure.Status().Message()
		line := appendStreamFailure(nil, failure, p.call.Route, p.front.errorFormat(p.call.Route))
		_ = p.writeLine(append(line, '\n'))
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(code)))
	if message != "" && validValue(message) {
		h.Set(http.TrailerPrefix+"Grpc-Message", message)
	}
	p.limitWrite()
}

func acceptsTrailers(r *http.Request) bool {
	return r.ProtoAtLeast(1, 1) && strings.Contains(strings.ToLower(r.Header.Get("Te")), "trailers")
}
