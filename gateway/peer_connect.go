package gateway

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

// connectPeer is one caller of a unary method by Connect: the bodies are the
// messages. The answer is held until the pipeline is through with the call, since
// trailers go out as headers.
type connectPeer struct {
	rpcCall
	get *wire.ConnectGet // nil: by POST

	received bool    // recvMsg
	reply    *[]byte // sendMsg
}

func (p *connectPeer) recvMsg() (mem.BufferSlice, error) {
	if p.received {
		return nil, io.EOF
	}
	p.received = true
	buf := p.front.buffers.room(int(min(p.r.ContentLength, maxKept)))
	body, err := p.readMessage(*buf)
	*buf = body
	if err != nil {
		p.front.buffers.Put(buf)
		return nil, err
	}
	return p.request(buf, p.sent != nil, codes.InvalidArgument)
}

func (p *connectPeer) readMessage(dst []byte) ([]byte, error) {
	if p.get == nil {
		body, err := readAsSent(p.w, p.r, dst, p.call.bodyLimit(p.front.cfg.MaxBodySize))
		if errors.Is(err, errBodyTimeout) {
			err = p.bodyLate()
		}
		return body, err
	}
	msg, ok := p.get.AppendMessage(dst)
	if !ok {
		return dst, badRequest("BAD_MESSAGE", "the parameter message is not base64url")
	}
	return msg, nil
}

func (p *connectPeer) sendHeader(md metadata.MD) error {
	addAnswer(p.w.Header(), "", md)
	return nil
}

func (p *connectPeer) note(md metadata.MD) { addAnswer(p.w.Header(), "", md) }

func (p *connectPeer) sendMsg(msg mem.BufferSlice) error {
	defer msg.Free()
	reply := p.front.buffers.room(2 * msg.Len())
	out, err := p.answer(*reply, msg)
	*reply = out
	if err != nil {
		p.front.buffers.Put(reply)
		return err
	}
	p.reply = reply
	return nil
}

func (p *connectPeer) finish(err error) {
	pool := p.front.buffers
	failure := describe(err)
	h := p.w.Header()
	addAnswer(h, "Trailer-", p.trailer)
	if p.get != nil {
		h["Vary"] = append(h["Vary"], "Accept-Encoding")
	}
	code := http.StatusOK
	body := p.reply
	if body == nil {
		body = pool.Get(0)
	}
	defer p.giveBack(body)
	if failure == nil {
		h["Content-Type"] = []string{p.form.answer}
	} else {
		code = p.writeFailure(failure, body)
	}
	if p.answered != nil && len(*body) >= compressFrom {
		packed := pool.room(len(*body) / 2)
		defer p.giveBack(packed)
		if out, err := p.answered.Compress(*packed, *body); err == nil {
			*packed, body = out, packed
			h["Content-Encoding"] = []string{p.answered.Name()}
		}
	}
	h["Content-Length"] = []string{strconv.Itoa(len(*body))}
	p.takeLeave()
	p.limitWrite()
	p.w.WriteHeader(code)
	_, err = p.w.Write(*body)
	p.broken = err != nil // the caller is gone; there is nobody to tell
}

// writeFailure puts an error in place of the body, which is JSON whatever the
// codec, and gives its HTTP status.
func (p *connectPeer) writeFailure(failure *callError, body *[]byte) int {
	h := p.w.Header()
	failure.writeHints(h)
	h["Content-Type"] = []string{"application/json"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	*body = p.appendError((*body)[:0], failure)
	if failure.httpStatus == http.StatusNotFound { // no such method; the code alone would be 501
		return http.StatusNotFound
	}
	return wire.ConnectHTTPStatus(failure.Code)
}
