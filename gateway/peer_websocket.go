package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/transcode"
)

const (
	// closeCodes is added to a gRPC code for the code that a failed call's
	// connection is closed with: 4001 to 4016, of RFC 6455's private range.
	closeCodes = 4000
	// maxCloseReason is how long the text beside it may be, in bytes: a control
	// frame has 125.
	maxCloseReason = 123
	// closeWait is how long the caller has to answer a close.
	closeWait = time.Second
)

// wsPeer is one WebSocket caller. The connection becomes one when the first
// message is asked for; recvMsg may then run beside all else.
//
// Its goroutines, which finish ends: ping, and once the caller has said all it
// has to say, watch. Reads belong to recvMsg, and to watch after that.
type wsPeer struct {
	call   Call
	front  *wsFront
	w      http.ResponseWriter
	r      *http.Request
	match  routes.Match
	whole  *transcode.Method // of the frames of a route that has no body; nil: the route's own
	cancel context.CancelCauseFunc

	mu      sync.Mutex // guards what follows
	conn    *websocket.Conn
	raw     net.Conn // below conn
	closed  bool     // there is no conn, and there will be none
	hurried bool     // the call is over; what blocks on raw is to end

	tasks   sync.WaitGroup
	done    chan struct{} // accept makes it, finish closes it: ping is to end
	reading atomic.Int64  // since when a read waits for the caller, in Unix ns; 0: none does
	begun   bool          // recvMsg: a body that is not JSON has begun
	ended   bool          // recvMsg: the caller's side is over
}

func (p *wsPeer) asked() (verb, method string) { return p.r.Method, p.r.URL.Path }

// accept makes the connection a WebSocket.
func (p *wsPeer) accept() (*websocket.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		return p.conn, nil
	}
	if p.closed || p.hurried {
		return nil, context.Canceled
	}
	limitWrite(p.w, p.r, p.front.cfg.WriteTimeout) // of the answer to the handshake; hijacking lifts it
	w := &hijackedWriter{ResponseWriter: p.w}
	conn, err := websocket.Accept(w, p.r, &websocket.AcceptOptions{
		Subprotocols:       []string{webSocketProtocol},
		InsecureSkipVerify: true, // of the origin: fill has checked it
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil { // the connection is broken; the handshake was checked before
		p.closed = true
		return nil, callerGone(err)
	}
	conn.SetReadLimit(-1) // readFrame has its own
	p.conn, p.raw, p.done = conn, w.conn, make(chan struct{})
	p.front.open.add(p.raw)
	if interval := p.front.cfg.Streams.PingInterval; interval > 0 {
		p.tasks.Go(func() { p.ping(conn, interval) })
	}
	return conn, nil
}

// hijackedWriter keeps hold of the connection that a WebSocket is made of, for
// its time limits.
type hijackedWriter struct {
	http.ResponseWriter
	conn net.Conn
}

func (w *hijackedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.conn = conn
	return conn, buffered, err
}

func (p *wsPeer) recvMsg() (mem.BufferSlice, error) {
	conn, err := p.accept()
	if err != nil {
		return nil, err
	}
	if p.ended {
		return nil, io.EOF
	}
	streams := p.call.Route.ClientStreams
	in := transcode.Input{Query: p.r.URL.RawQuery, Vars: p.match.Vars}
	pool := p.front.buffers
	frame := pool.Get(0)
	defer pool.Put(frame)
	if streams || p.call.Route.Body != "" {
		in.Body, err = p.readFrame(conn, frame, !streams)
		if err != nil {
			return nil, err
		}
	}
	if !streams || len(in.Body) == 0 {
		p.ended = true
		p.startWatch(conn)
		if streams {
			return nil, io.EOF
		}
	}
	msg := pool.room(len(*frame))
	*msg, err = p.appendRequest(*msg, in)
	if err != nil {
		pool.Put(msg)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(msg, pool)}, nil
}

// appendRequest appends what a frame holds as a message, with what the path and
// the query say.
func (p *wsPeer) appendRequest(dst []byte, in transcode.Input) ([]byte, error) {
	own := p.match.Route.Transcoder
	if own.RequestBody() == transcode.RawBody {
		if p.begun {
			return own.AppendChunk(dst, in.Body)
		}
		p.begun = true
	}
	if p.whole == nil {
		return own.AppendRequest(dst, in)
	}
	// One behind the other they merge, and what the path binds wins.
	dst, err := p.whole.AppendRequest(dst, transcode.Input{Body: in.Body})
	if err != nil {
		return dst, err
	}
	in.Body = nil
	return own.AppendRequest(dst, in)
}

// readFrame reads one message of the caller's into buf. first: it is the one
// message that a caller who does not stream sends, and must not be long in coming.
func (p *wsPeer) readFrame(conn *websocket.Conn, buf *[]byte, first bool) ([]byte, error) {
	p.reading.Store(time.Now().UnixNano())
	defer p.reading.Store(0)
	if first {
		p.limitRead()
	}
	kind, r, err := conn.Reader(context.Background())
	if err != nil {
		return nil, readFailure(err)
	}
	if !first { // one that has begun to come is to come to its end
		p.limitRead()
	}
	limit := p.call.bodyLimit(p.front.cfg.MaxBodySize)
	*buf, err = appendAll(*buf, io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, readFailure(err)
	case int64(len(*buf)) > limit:
		return nil, errBodyTooLarge
	case kind != websocket.MessageText && p.match.Route.Transcoder.RequestBody() != transcode.RawBody:
		return nil, badRequest("BAD_MESSAGE", "messages are JSON, in text frames; this is a binary one")
	}
	p.setReadDeadline(time.Time{})
	return *buf, nil
}

// readFailure is why there is no further message.
func readFailure(err error) error {
	var network net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errBodyTimeout
	case websocket.CloseStatus(err) >= 0, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed), errors.As(err, &network):
		return callerGone(err)
	}
	return errBadFrames
}

// callerGone is for a caller that has hung up, or does not read. It does not
// wrap how that was noticed: to rpcproxy io.EOF is the end of a caller's
// messages, which a connection that broke is not.
func callerGone(err error) error { return fmt.Errorf("%w: %v", context.Canceled, err) } //nolint:errorlint // see above

var errBadFrames = &callError{
	Code: codes.InvalidArgument, Reason: "BAD_FRAME",
	Message: "what came is not made of WebSocket frames as RFC 6455 has them",
}

// startWatch starts watch, unless finish waits for such already: recvMsg may
// outlive the call.
func (p *wsPeer) startWatch(conn *websocket.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.tasks.Go(func() { p.watch(conn) })
	}
}

// watch reads on when there is nothing more to come from the caller, since
// pongs and its leaving are to be noticed.
func (p *wsPeer) watch(conn *websocket.Conn) {
	for {
		p.reading.Store(time.Now().UnixNano())
		_, r, err := conn.Reader(context.Background())
		if err != nil {
			p.cancel(readFailure(err))
			return
		}
		var extra [1]byte
		if n, err := r.Read(extra[:]); n > 0 || !errors.Is(err, io.EOF) {
			p.cancel(errManyMessages)
			return
		}
	}
}

// ping keeps asking whether the caller is still there. A caller that cannot
// answer because nobody reads from it, as the backend is slow, is there.
func (p *wsPeer) ping(conn *websocket.Conn, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), interval)
		err := conn.Ping(ctx)
		cancel()
		since := p.reading.Load()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed):
			return
		case since != 0 && time.Since(time.Unix(0, since)) >= interval:
			p.cancel(errors.Join(context.Canceled, errNoPong))
			return
		}
	}
}

var errNoPong = errors.New("the caller does not answer pings")

// sendHeader keeps nothing: a WebSocket has no place for metadata once it is
// open, and is open before the backend has said anything.
func (p *wsPeer) sendHeader(metadata.MD) error { return nil }

func (p *wsPeer) setTrailer(metadata.MD) {}

func (p *wsPeer) note(metadata.MD) {}

func (p *wsPeer) sendMsg(msg mem.BufferSlice) error {
	defer msg.Free()
	conn, err := p.accept()
	if err != nil {
		return err
	}
	pool := p.front.buffers
	wire, lent := pool.joined(msg)
	defer pool.Put(lent)
	t := p.match.Route.Transcoder
	if t.ResponseBody() == transcode.RawBody {
		body, err := t.HTTPBody(wire)
		if err != nil {
			return err
		}
		return p.write(conn, websocket.MessageBinary, body.Data)
	}
	out := pool.room(2 * len(wire))
	defer pool.Put(out)
	before, after := p.front.errorFormat(p.call.Route).wrap()
	*out, err = t.AppendResponse(append(*out, before...), wire)
	if err != nil {
		return err
	}
	*out = append(*out, after...)
	return p.write(conn, websocket.MessageText, *out)
}

// write writes one frame. It takes as long as the caller takes to read, within
// the limit for that.
func (p *wsPeer) write(conn *websocket.Conn, kind websocket.MessageType, data []byte) error {
	ctx := context.Background()
	if timeout := p.front.cfg.WriteTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if err := conn.Write(ctx, kind, data); err != nil {
		return callerGone(err)
	}
	return nil
}

// limitRead bounds how long the caller may take for what it has begun.
func (p *wsPeer) limitRead() {
	until := p.call.Deadline
	if timeout := p.front.cfg.BodyTimeout; timeout > 0 {
		if limit := time.Now().Add(timeout); until.IsZero() || limit.Before(until) {
			until = limit
		}
	}
	p.setReadDeadline(until)
}

func (p *wsPeer) setReadDeadline(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hurried {
		_ = p.raw.SetReadDeadline(until)
	}
}

// hurry ends what waits for the caller: the call is over.
func (p *wsPeer) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hurried = true; p.raw != nil {
		_ = p.raw.SetReadDeadline(time.Unix(1, 0))
		_ = p.raw.SetWriteDeadline(time.Now().Add(closeWait))
	}
}

// finish ends the connection with the pipeline's outcome: a last frame where
// the call failed, and a close whose code says how.
func (p *wsPeer) finish(err error) {
	failure := describe(err)
	if failure == nil {
		_, _ = p.accept() // of a call that asked for nothing
	}
	p.mu.Lock()
	conn, refused := p.conn, p.conn == nil && !p.closed
	p.closed = true
	p.mu.Unlock()
	if refused {
		p.refuse(failure)
	}
	if conn == nil {
		return
	}
	close(p.done)
	p.mu.Lock()
	if !p.hurried {
		p.hurried = true // the limits are this one's from now on
		_ = p.raw.SetWriteDeadline(time.Now().Add(closeWait + p.front.cfg.WriteTimeout))
	}
	p.mu.Unlock()
	if failure != nil {
		last := p.front.buffers.Get(0)
		*last = appendStreamFailure(*last, failure, p.call.Route, p.front.errorFormat(p.call.Route))
		_ = p.write(conn, websocket.MessageText, *last) // the caller may be gone
		p.front.buffers.Put(last)
	}
	_ = p.raw.SetReadDeadline(time.Now().Add(closeWait))
	_ = conn.Close(closeStatus(failure))
	_ = conn.CloseNow()
	p.tasks.Wait()
	p.front.open.remove(p.raw)
}

// refuse answers a handshake that led to no WebSocket, as any HTTP request is.
func (p *wsPeer) refuse(failure *callError) {
	if failure.HTTPStatus() == http.StatusUpgradeRequired { // RFC 6455, section 4.4
		h := p.w.Header()
		h.Set("Upgrade", "websocket")
		h.Set("Sec-Websocket-Version", "13")
	}
	answer := &jsonPeer{front: p.front.json, w: p.w, r: p.r}
	answer.call.Route = p.call.Route
	answer.writeFailure(failure)
}

// closeStatus is the code and the text that a connection is closed with.
func closeStatus(failure *callError) (websocket.StatusCode, string) {
	if failure == nil {
		return websocket.StatusNormalClosure, ""
	}
	switch failure.Reason {
	case errBadFrames.Reason:
		return websocket.StatusProtocolError, ""
	case errDraining.Reason:
		return websocket.StatusServiceRestart, closeReason(failure.Message)
	}
	return websocket.StatusCode(closeCodes + int(failure.Code)), closeReason(failure.Status().Message())
}

// closeReason cuts a text to what fits, between two characters.
func closeReason(text string) string {
	if !utf8.ValidString(text) {
		return ""
	}
	if len(text) <= maxCloseReason {
		return text
	}
	cut := maxCloseReason
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
