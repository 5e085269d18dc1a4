package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/transcode"
)

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
	raw      int64   // bytes of a raw upload that were read
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
	u.splitter = jsonSplitter{r: u}
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
		return errMultipart
	}
	u.limit(0)
	u.splitter.limit = int(u.peer.call.bodyLimit(u.peer.front.cfg.MaxBodySize))
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
