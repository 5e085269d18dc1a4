package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/transcode"
)

// rawChunk is the most data that one message of a raw upload carries, in bytes.
const rawChunk = 32 << 10

// errUploadOver is what is read of an upload whose call has ended. Nobody sees it.
var errUploadOver = errors.New("the call is over")

// jsonUpload is the body of a caller that streams: JSON values, or one file in
// chunks. It is read as the backend takes messages, and never held whole.
//
// It is read by one goroutine, which may still do so when the call has ended;
// close then keeps it from what is not its own any longer.
type jsonUpload struct {
	peer     *jsonPeer
	kind     transcode.BodyKind
	body     io.Reader // decompressed
	unpack   io.Closer // gives the decompressor back
	splitter jsonSplitter
	chunk    *[]byte // the buffer of a raw upload
	messages int64   // given out
	begun    bool
	stalled  int64 // what the read limit was set for: the count of messages, plus one; 0: it is not set

	ended atomic.Bool  // it was read to its end
	until atomic.Int64 // the read limit, in nanoseconds since 1970; 0: none

	mu      sync.Mutex
	reading bool
	closed  bool
}

func newJSONUpload(p *jsonPeer) *jsonUpload {
	// The answer may begin, or come as a whole, while the caller still sends.
	_ = http.NewResponseController(p.w).EnableFullDuplex() // HTTP/2 needs no asking
	u := &jsonUpload{peer: p, kind: p.match.Route.Transcoder.RequestBody()}
	u.splitter = jsonSplitter{r: u, limit: int(p.front.cfg.MaxBodySize)}
	u.ended.Store(!hasBody(p.r))
	return u
}

// watch gives a context for the call that ends with the request's own, but tells
// a caller that was too slow from one that is gone: net/http ends a request whose
// body cannot be read, for whatever reason. stop ends the watching.
func (u *jsonUpload) watch(request context.Context) (ctx context.Context, cancel context.CancelCauseFunc, stop func() bool) {
	ctx, cancel = context.WithCancelCause(context.WithoutCancel(request))
	stop = context.AfterFunc(request, func() {
		if until := u.until.Load(); until != 0 && time.Now().UnixNano() >= until {
			cancel(errBodyTimeout)
			return
		}
		cancel(context.Cause(request))
	})
	return ctx, cancel, stop
}

// recv gives the next message.
func (u *jsonUpload) recv() (mem.BufferSlice, error) {
	if !u.enter() {
		return nil, errUploadOver
	}
	defer u.leave()
	if !u.begun {
		u.begun = true
		if err := u.open(); err != nil {
			return nil, err
		}
	}
	msg, err := u.next()
	if errors.Is(err, io.EOF) {
		u.limit(0)
		u.ended.Store(true)
	}
	return msg, err
}

// open looks at the headers and lifts the limit for a whole body, which a stream
// has none of.
func (u *jsonUpload) open() error {
	r := u.peer.r
	if u.kind == transcode.JSONBody && labelOf(contentType(r.Header)) == labelMultipart {
		return errNotJSON
	}
	u.limit(0)
	u.body = r.Body
	c, err := compressionOf(r.Header, u.peer.front.compressors)
	if c == nil || err != nil {
		return err
	}
	unpacked, err := c.NewReader(rawBody{u}, maxUpload)
	if err != nil {
		return bodyFailure(r, err, c)
	}
	u.body, u.unpack = unpacked, unpacked
	return nil
}

// maxUpload bounds a whole decompressed upload, of which one message is held at a
// time, to what fits an int64 with some room.
const maxUpload = 1 << 62

// rawBody is the request's body without an io.Closer that a decompressor could
// find.
type rawBody struct{ u *jsonUpload }

func (b rawBody) Read(p []byte) (int, error) { return b.u.peer.r.Body.Read(p) }

func (u *jsonUpload) next() (mem.BufferSlice, error) {
	switch u.kind {
	case transcode.RawBody:
		return u.nextChunk()
	case transcode.JSONBody:
		return u.nextValue()
	default:
		return u.only()
	}
}

// nextValue gives the next JSON value.
func (u *jsonUpload) nextValue() (mem.BufferSlice, error) {
	value, err := u.splitter.next()
	var told *callError
	switch {
	case err == nil:
	case errors.As(err, &told), errors.Is(err, io.EOF):
		return nil, err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, u.bad("the body ends in the middle of it")
	case errors.Is(err, errNotMessages):
		return nil, u.bad("expected JSON values, one after the other, or an array of them")
	case errors.Is(err, errMessageTooLarge):
		return nil, errUploadedTooLarge
	default:
		return nil, err // the caller is gone
	}
	msg, err := u.message(value)
	u.splitter.shrink()
	return msg, err
}

// bad tells what is wrong with the next message.
func (u *jsonUpload) bad(what string) *callError {
	return badRequest("BAD_REQUEST", "message "+strconv.FormatInt(u.messages+1, 10)+" of the body: "+what)
}

// message makes a message of a JSON value, or of the first piece of a raw body.
func (u *jsonUpload) message(body []byte) (mem.BufferSlice, error) {
	p := u.peer
	in := transcode.Input{Body: body, Query: p.r.URL.RawQuery, Vars: p.match.Vars}
	if u.kind == transcode.RawBody {
		in.ContentType = contentType(p.r.Header)
	}
	pool := p.front.buffers
	msg := pool.Get(0)
	wire, err := p.match.Route.Transcoder.AppendRequest(*msg, in)
	if err != nil {
		pool.Put(msg)
		failure := describe(err)
		if u.kind == transcode.JSONBody {
			failure.Message = u.bad(failure.Message).Message
		}
		return nil, failure
	}
	u.messages++
	*msg = wire
	return mem.BufferSlice{mem.NewBuffer(msg, pool)}, nil
}

// nextChunk gives the next piece of a raw body, as large as it comes. The first
// message carries the media type and what path and query say, and there is one
// even where there is no data.
func (u *jsonUpload) nextChunk() (mem.BufferSlice, error) {
	pool := u.peer.front.buffers
	if u.chunk == nil {
		u.chunk = pool.Get(rawChunk)
	}
	for !u.ended.Load() {
		n, err := u.read(*u.chunk)
		if errors.Is(err, io.EOF) {
			u.limit(0)
			u.ended.Store(true)
			err = nil
		}
		switch {
		case err != nil:
			return nil, err
		case n == 0:
			continue
		case u.messages == 0:
			return u.message((*u.chunk)[:n])
		}
		msg := pool.Get(0)
		if *msg, err = u.peer.match.Route.Transcoder.AppendChunk(*msg, (*u.chunk)[:n]); err != nil {
			pool.Put(msg)
			return nil, err
		}
		u.messages++
		return mem.BufferSlice{mem.NewBuffer(msg, pool)}, nil
	}
	if u.messages == 0 {
		return u.message(nil)
	}
	return nil, io.EOF
}

// only gives the one message of a route whose body says nothing: path and query
// are all that it is made of. The body is read all the same, so that a caller
// who hangs up is noticed.
func (u *jsonUpload) only() (mem.BufferSlice, error) {
	if u.messages == 0 {
		return u.message(nil)
	}
	if !u.ended.Load() {
		_, err := readBody(u.peer.w, u.peer.r, nil, int64(u.peer.front.cfg.MaxBodySize), u.peer.front.compressors)
		if err != nil {
			return nil, err
		}
	}
	return nil, io.EOF
}

// Read reads the body for the splitter.
func (u *jsonUpload) Read(p []byte) (int, error) {
	if u.ended.Load() {
		return 0, io.EOF
	}
	return u.read(p)
}

// read reads the body. The configured limit is for one message, from its first
// byte to its last; between messages a caller may take its time. In a raw upload
// it is for one read: there must be some data in that time.
func (u *jsonUpload) read(p []byte) (int, error) {
	if u.kind == transcode.RawBody || u.splitter.inside() {
		if timeout := u.peer.front.cfg.BodyTimeout; timeout > 0 && (u.kind == transcode.RawBody || u.stalled != u.messages+1) {
			u.limit(timeout)
		}
	} else if u.stalled != 0 {
		u.limit(0)
	}
	n, err := u.body.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	c, _ := compressionOf(u.peer.r.Header, u.peer.front.compressors)
	return n, bodyFailure(u.peer.r, err, c)
}

// limit gives what is read next so long to come; 0: as long as it takes.
func (u *jsonUpload) limit(timeout time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return // the connection may serve somebody else's request now
	}
	var deadline time.Time
	u.stalled = 0
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
		u.stalled = u.messages + 1
		u.until.Store(deadline.UnixNano())
	} else {
		u.until.Store(0)
	}
	_ = http.NewResponseController(u.peer.w).SetReadDeadline(deadline)
}

// enter begins reading, if the call is not over.
func (u *jsonUpload) enter() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading = !u.closed
	return u.reading
}

func (u *jsonUpload) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading = false
	if u.closed {
		u.release()
	}
}

// close ends the reading when the answer is written. What is left of an upload
// that was answered early is thrown away by net/http, within a limit of its own
// and lastRead.
func (u *jsonUpload) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended.Load() {
		leaveBody(u.peer.w)
	}
	u.closed = true
	if !u.reading {
		u.release()
	}
}

// release gives back what is lent.
func (u *jsonUpload) release() {
	if u.unpack != nil {
		_ = u.unpack.Close()
		u.unpack = nil
	}
	if u.chunk != nil {
		u.peer.front.buffers.Put(u.chunk)
		u.chunk = nil
	}
}
