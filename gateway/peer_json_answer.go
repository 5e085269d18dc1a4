package gateway

import (
	"net/http"
	"strconv"

	"github.com/rpcgate/rpcgate/transcode"
)

// An answer that is one message is held until the backend's status is known, so
// that its HTTP status is always the real one.

// appendAnswer appends the answer as the caller gets it.
func (p *jsonPeer) appendAnswer(out *[]byte, wire []byte) (err error) {
	t := p.match.Route.Transcoder
	if t.ResponseBody() == transcode.RawBody {
		body, err := t.HTTPBody(wire)
		if err != nil {
			return err
		}
		*out = append(*out, body.Data...)
		p.answerType = rawType(body.ContentType)
		return nil
	}
	before, after := p.front.errorFormat(p.match.Route).wrap()
	*out = append(*out, before...)
	if *out, err = t.AppendResponse(*out, wire); err != nil {
		return err
	}
	*out = append(*out, after...)
	return nil
}

// rawType is the media type of a google.api.HttpBody. What a backend says goes
// out as it is, if it can be sent at all.
func rawType(given string) string {
	if given == "" || !validValue(given) {
		return "application/octet-stream"
	}
	return given
}

func (p *jsonPeer) writeAnswer() {
	h := p.w.Header()
	addMetadata(h, metadataPrefix, p.header, p.call.rules.forResponse())
	var body []byte
	if p.answer != nil {
		body = *p.answer
	}
	if p.answerType == "" {
		h["Content-Type"] = p.front.jsonType
	} else {
		h["Content-Type"] = []string{p.answerType}
		h.Set("X-Content-Type-Options", "nosniff")
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
	defer p.giveBack(buf)
	if p.lists && failure.Reason == fanOutFailed {
		*buf = appendListed(*buf, failure, p.call.Route, format, *p.answer)
	} else {
		*buf = appendFailure(*buf, failure, p.call.Route, format)
	}
	p.writeWhole(failure.HTTPStatus(), *buf)
}

// writeWhole writes an answer that is known to its end. Its trailers go out as
// HTTP trailers to callers that say they read them, and among the headers to
// all others: nothing was sent yet, so nothing need be lost.
func (p *jsonPeer) writeWhole(code int, body []byte) {
	h := p.w.Header()
	if packed := p.compress(body); packed != nil {
		defer p.giveBack(packed)
		body = *packed
	}
	if len(p.trailer) > 0 && acceptsTrailers(p.r) {
		addMetadata(h, http.TrailerPrefix+trailerPrefix, p.trailer, p.call.rules.forResponse())
	} else {
		addMetadata(h, trailerPrefix, p.trailer, p.call.rules.forResponse())
		p.length[0] = strconv.Itoa(len(body))
		h["Content-Length"] = p.length[:]
	}
	p.takeLeave(h)
	p.w.WriteHeader(code)
	p.limitWrite()
	if _, err := p.w.Write(body); err != nil {
		p.broken.Store(true) // the caller is gone; there is nobody to tell
	}
}

func (p *jsonPeer) limitWrite() { limitWrite(p.w, p.r, p.front.cfg.WriteTimeout) }
