package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/gateway/wire"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/transcode"
)

// compressFrom is from which size on messages are compressed, in bytes. Smaller
// ones gain nothing, and may fit one packet as they are.
const compressFrom = 1 << 10

// rpcCall is what the callers of all RPC protocols over net/http have.
type rpcCall struct {
	call  Call
	front *rpcFront
	w     http.ResponseWriter
	r     *http.Request
	form  rpcForm

	sent     *wire.Compression // of the request; nil: none
	answered *wire.Compression // of the answer, where it pays; nil: none

	bodyLimited bool        // openBody
	broken      bool        // a write failed: the caller cannot be reached any more
	trailer     metadata.MD // setTrailer
}

func (c *rpcCall) asked() (verb, method string) { return "", c.r.URL.Path }

func (c *rpcCall) setTrailer(md metadata.MD) { c.trailer = md }

// openBody gets the body ready to be read. A stream may take as long as it
// likes, and its answer begin before its end; anything else has to come in time,
// the caller's own included.
func (c *rpcCall) openBody() {
	if c.call.Route.ClientStreams {
		if c.r.ProtoMajor < 2 {
			_ = http.NewResponseController(c.w).EnableFullDuplex() // net/http's writers can
		}
		return
	}
	limit := c.front.cfg.BodyTimeout
	if !c.call.Deadline.IsZero() {
		left := max(time.Until(c.call.Deadline), 1)
		if limit <= 0 || left < limit {
			limit = left
		}
	}
	c.bodyLimited = limit > 0
	limitBodyTime(c.w, c.r, limit)
}

// bodyRead lifts the body's time limit once it is there, so that the connection
// can be watched for the caller's leaving.
func (c *rpcCall) bodyRead() {
	if c.bodyLimited && hasBody(c.r) {
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
	}
}

// bodyLate says why a body was not waited for any longer.
func (c *rpcCall) bodyLate() error {
	if !c.call.Deadline.IsZero() && !time.Now().Before(c.call.Deadline) {
		return errDeadlinePassed
	}
	return errBodyTimeout
}

// request makes of a message as it came what the backend gets. It takes
// ownership of buf. Faults with the data have the code bad.
func (c *rpcCall) request(buf *[]byte, compressed bool, bad codes.Code) (mem.BufferSlice, error) {
	pool := c.front.buffers
	if compressed {
		plain := pool.room(2 * len(*buf))
		out, err := c.sent.Decompress(*plain, *buf)
		*plain = out
		pool.Put(buf)
		if err != nil {
			pool.Put(plain)
			if errors.Is(err, wire.ErrTooLarge) {
				return nil, c.tooLarge(err)
			}
			return nil, &callError{Code: bad, Reason: "BAD_MESSAGE", Message: "the message cannot be decompressed: " + err.Error(), cause: err}
		}
		buf = plain
	}
	if most := c.call.bound.maxBody; most > 0 && int64(len(*buf)) > most {
		pool.Put(buf)
		return nil, errBodyTooLarge
	}
	if c.form.json {
		msg := pool.room(len(*buf))
		out, err := c.call.Route.Transcoder.AppendRequest(*msg, transcode.Input{Body: *buf})
		*msg = out
		pool.Put(buf)
		if err != nil {
			pool.Put(msg)
			return nil, err
		}
		buf = msg
	}
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

func (c *rpcCall) tooLarge(cause error) error {
	return &callError{
		Code: codes.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE", httpStatus: http.StatusRequestEntityTooLarge, cause: cause,
		Message: fmt.Sprintf("the message is larger than this gateway accepts, which is %d bytes", int64(c.front.cfg.MaxBodySize)),
	}
}

// answer appends a message of the backend's as the caller gets it, to be
// compressed yet.
func (c *rpcCall) answer(dst []byte, msg mem.BufferSlice) ([]byte, error) {
	if !c.form.json {
		for _, b := range msg {
			dst = append(dst, b.ReadOnlyData()...)
		}
		return dst, nil
	}
	data, lent := c.front.buffers.joined(msg)
	defer c.front.buffers.Put(lent)
	out, err := c.call.Route.Transcoder.AppendResponse(dst, data)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// readFault says what an error of the request's body means.
func (c *rpcCall) readFault(err error) error {
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return c.tooLarge(err)
	case errors.Is(err, wire.ErrTruncated), errors.Is(err, wire.ErrBadText):
		return &callError{Code: codes.Internal, Reason: "BAD_MESSAGE", Message: err.Error(), httpStatus: http.StatusBadRequest}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return c.bodyLate()
	case c.r.Context().Err() != nil:
		return c.r.Context().Err()
	}
	f := badRequest("BAD_BODY", "the request body could not be read to its end")
	f.cause = err
	return f
}

// giveBack puts a buffer back that was written from; see [buffers.Put].
func (c *rpcCall) giveBack(buf *[]byte) {
	if !c.broken {
		c.front.buffers.Put(buf)
	}
}

func (c *rpcCall) limitWrite() { limitWrite(c.w, c.r, c.front.cfg.WriteTimeout) }

func (c *rpcCall) unlimitWrite() { unlimitWrite(c.w, c.front.cfg.WriteTimeout) }

// takeLeave has callers over HTTP/1.1 look for another connection once the stop
// has begun; [farewells] is for those over HTTP/2.
func (c *rpcCall) takeLeave() {
	if c.r.ProtoMajor == 1 && !c.front.g.ready.on.Load() {
		c.w.Header()["Connection"] = []string{"close"}
	}
}

// appendError appends a failure as Connect has it.
func (c *rpcCall) appendError(dst []byte, failure *callError) []byte {
	if failure.fixed != nil {
		return append(dst, failure.fixed.connect...)
	}
	s := failure.Status()
	return wire.AppendConnectError(dst, s.Code(), s.Message(), detailsOf(failure, c.call.Route))
}

// detailsOf gives a status' details as Connect shows them; the route may be nil.
func detailsOf(failure *callError, r *routes.Route) []wire.ErrorDetail {
	all := failure.Status().Proto().GetDetails()
	if len(all) == 0 {
		return nil
	}
	var types transcode.Resolver
	if r != nil {
		types = r.Types
	}
	details := make([]wire.ErrorDetail, len(all))
	for i, d := range all {
		details[i] = wire.ErrorDetail{Type: typeName(d.GetTypeUrl()), Value: d.GetValue(), Debug: transcode.AppendDetail(nil, d, types)}
	}
	return details
}
