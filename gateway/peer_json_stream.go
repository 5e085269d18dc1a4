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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/gateway/wire"
	"github.com/rpcgate/rpcgate/transcode"
)

// headerGrace is how long a stream whose backend has sent its header, and
// nothing else, is held back for the sake of its status.
const headerGrace = time.Second

// jsonStream is a stream of answers to an HTTP/JSON caller. Its status line goes
// out with the first message, so that a stream that fails before it has the
// failure's own. But a caller who waits for something to happen must be told
// that it waits: the status line goes out without a message, as 200, when the
// backend sent its header a second ago; and an event stream's with the first
// heartbeat after the call was let through. A header that comes after that goes
// out in the trailers.
type jsonStream struct {
	peer   *jsonPeer
	form   streamForm
	errors errorFormat
	cancel context.CancelCauseFunc // ends the call: the caller is gone

	// The call was let through, which shows by its request being asked for, or
	// answered. Until then nothing goes out: a refusal has a status of its own.
	admitted atomic.Bool

	mu        sync.Mutex // guards the rest, and writing
	committed bool       // the status line is out
	over      bool       // the handler has returned or will at once
	messages  int64
	rawType   string      // of the first raw message
	late      metadata.MD // a header that came when committed
	packer    wire.Writer // compresses; nil: nothing does
	timer     *time.Timer // runs idle
	wrote     time.Time   // when something was written last
}

func newJSONStream(p *jsonPeer, cancel context.CancelCauseFunc) *jsonStream {
	s := &jsonStream{peer: p, cancel: cancel, errors: p.front.errorFormat(p.match.Route)}
	if p.match.Route.Transcoder.ResponseBody() == transcode.RawBody {
		s.form = streamRaw
		return s
	}
	s.form = acceptedStream(p.r.Header["Accept"])
	if beat := p.front.cfg.Streams.Heartbeat; s.form == streamEvents && beat > 0 {
		s.wrote = time.Now()
		s.mu.Lock() // for idle, which could come at once
		s.timer = time.AfterFunc(beat, s.idle)
		s.mu.Unlock()
	}
	return s
}

// setHeader takes the backend's header.
func (s *jsonStream) setHeader(md metadata.MD) {
	s.admitted.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed {
		s.late = md
		return
	}
	s.peer.header = md
	switch {
	case s.form == streamRaw: // nobody knows yet what the data will be
	case s.timer == nil:
		s.timer = time.AfterFunc(headerGrace, s.idle)
	case s.peer.front.cfg.Streams.Heartbeat > headerGrace:
		s.timer.Reset(headerGrace)
	}
}

// idle runs when nothing was written for a while: it commits the stream, and
// gives an event stream its heartbeat.
func (s *jsonStream) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	beats := s.form == streamEvents && s.peer.front.cfg.Streams.Heartbeat > 0
	if !s.admitted.Load() {
		s.timer.Reset(s.peer.front.cfg.Streams.Heartbeat) // nothing else has set it yet
		return
	}
	if s.committed {
		if !beats {
			return
		}
		if left := s.peer.front.cfg.Streams.Heartbeat - time.Since(s.wrote); left > 0 {
			s.timer.Reset(left)
			return
		}
	}
	s.commit()
	var comment []byte
	if s.form == streamEvents {
		comment = []byte(heartbeat)
	}
	if err := s.write(comment); err != nil {
		s.cancel(err)
		return
	}
	if beats {
		s.timer.Reset(s.peer.front.cfg.Streams.Heartbeat)
	}
}

// send writes one message and pushes it out at once. out is scratch space.
func (s *jsonStream) send(out *[]byte, wire []byte) error {
	data, err := s.message(out, wire)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commit()
	s.messages++
	return s.write(data)
}

// message gives a message as it stands in the stream: in out, or part of wire.
// Only send counts messages, and it runs once at a time: that is read here
// without the lock.
func (s *jsonStream) message(out *[]byte, wire []byte) (data []byte, err error) {
	t := s.peer.match.Route.Transcoder
	first := s.messages == 0
	if s.form == streamRaw {
		body, err := t.HTTPBody(wire)
		if err != nil {
			return nil, err
		}
		if first {
			s.rawType = rawType(body.ContentType)
		}
		return body.Data, nil
	}
	before, after := s.errors.wrap()
	*out = append(s.form.appendOpen(*out, first), before...)
	if *out, err = t.AppendResponse(*out, wire); err != nil {
		return nil, err
	}
	*out = s.form.appendClose(append(*out, after...))
	return *out, nil
}

// commit sends the status line and the headers, with what is written next, if it
// has not done so yet.
func (s *jsonStream) commit() {
	if s.committed {
		return
	}
	s.committed = true
	p := s.peer
	h := p.w.Header()
	addMetadata(h, metadataPrefix, p.header, p.call.rules.forResponse())
	h.Set("Content-Type", s.form.contentType())
	if s.rawType != "" {
		h.Set("Content-Type", s.rawType)
	}
	if s.form != streamRaw {
		h.Add("Vary", "Accept")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if s.form == streamEvents {
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // nginx would hold messages back
	}
	if c := p.encoding(); c != nil {
		h.Set("Content-Encoding", c.Name())
		s.packer = c.NewWriter(p.w)
	}
	p.takeLeave(h)
	p.w.WriteHeader(http.StatusOK)
}

// write writes and pushes out.
func (s *jsonStream) write(data []byte) error {
	p := s.peer
	control := http.NewResponseController(p.w)
	p.limitWrite()
	defer unlimitWrite(p.w, p.front.cfg.WriteTimeout)
	if s.timer != nil {
		s.wrote = time.Now()
	}
	var out io.Writer = p.w
	if s.packer != nil {
		out = s.packer
	}
	_, err := out.Write(data)
	if err == nil && s.packer != nil {
		err = s.packer.Flush()
	}
	if err == nil {
		err = control.Flush() // where most failures show
	}
	if err != nil {
		p.broken.Store(true)
		return errors.Join(context.Canceled, err) // the caller hung up, or does not read
	}
	return nil
}

// stop keeps idle from the answer, which is the handler's alone from now on.
func (s *jsonStream) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// finish ends the stream with its outcome. It gives false, having written
// nothing, where a failure came before the status line was out. A stream that
// fails in a form that must be cut off ends in [cutOff].
func (s *jsonStream) finish(failure *callError) bool {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.committed && failure != nil {
		return false
	}
	bare := !s.committed // a stream without a message
	s.commit()
	end := s.form.appendEnd(nil, s.messages == 0)
	if failure != nil {
		end = s.appendFailure(nil, failure)
	}
	var err error
	if len(end) > 0 || bare { // net/http gives no trailers to a body that it finds empty
		err = s.write(end)
	}
	if failure != nil && s.form.cuts() {
		cutOff(s.peer.w, s.peer.r) // the packer's memory is lost to the pool, and its data have no end either
	}
	s.peer.limitWrite()
	if s.packer != nil {
		if closeErr := s.packer.Close(); err == nil {
			err = closeErr
		}
	}
	if err == nil {
		s.writeTrailers(failure)
	}
	return true
}

// appendFailure appends what is said of a failure in the stream itself.
func (s *jsonStream) appendFailure(dst []byte, failure *callError) []byte {
	switch s.form {
	case streamRaw:
		return dst
	case streamEvents:
		dst = append(dst, "event: error\ndata: "...)
		dst = appendFailure(dst, failure, s.peer.call.Route, s.errors)
		return append(dst, "\n\n"...)
	case streamLines, streamArray:
	}
	dst = s.form.appendOpen(dst, s.messages == 0)
	dst = appendStreamFailure(dst, failure, s.peer.call.Route, s.errors)
	return s.form.appendClose(dst)
}

// writeTrailers gives the status, and the backend's trailer, in HTTP trailers.
func (s *jsonStream) writeTrailers(failure *callError) {
	h := s.peer.w.Header()
	addMetadata(h, http.TrailerPrefix+metadataPrefix, s.late, s.peer.call.rules.forResponse())
	addMetadata(h, http.TrailerPrefix+trailerPrefix, s.peer.trailer, s.peer.call.rules.forResponse())
	code, message := codes.OK, ""
	if failure != nil {
		code, message = failure.Code, failure.Status().Message()
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(code)))
	if message != "" {
		h.Set(http.TrailerPrefix+"Grpc-Message", wire.EncodeMessage(message))
	}
}
