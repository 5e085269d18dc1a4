package gateway

import (
	"bytes"
	"strings"

	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/transcode"
)

// recvOnly reads the one message of a caller that does not stream.
func (p *jsonPeer) recvOnly() (mem.BufferSlice, error) {
	t := p.match.Route.Transcoder
	in := transcode.Input{Query: p.r.URL.RawQuery, Vars: p.match.Vars}
	kind := t.RequestBody()
	labelled := labelNone
	if kind == transcode.JSONBody {
		labelled = labelOf(contentType(p.r.Header))
		if labelled == labelMultipart {
			return nil, errMultipart
		}
	}
	pool := p.front.buffers
	body := pool.room(int(min(p.r.ContentLength, maxKept)))
	defer pool.Put(body)
	// A body that the route has no use for is read all the same: only then
	// does net/http notice a caller that hangs up.
	var err error
	*body, err = readBody(p.w, p.r, *body, p.call.bodyLimit(p.front.cfg.MaxBodySize), p.front.compressors, pool)
	if err != nil {
		return nil, err
	}
	if err := p.call.waitToRead(p.r.Context(), len(*body)); err != nil {
		return nil, err
	}
	switch kind {
	case transcode.RawBody:
		in.Body, in.ContentType = *body, contentType(p.r.Header)
	case transcode.JSONBody:
		in.Body = *body
		if labelled == labelForm {
			if in.Form, err = p.isForm(*body); err != nil {
				return nil, err
			}
		}
	case transcode.NoBody:
	}
	msg := pool.room(len(*body))
	wire, err := t.AppendRequest(*msg, in)
	if err != nil {
		pool.Put(msg)
		return nil, err
	}
	*msg = wire
	p.message[0] = mem.NewBuffer(msg, pool)
	return p.message[:], nil
}

// label is what a request says of its body, as far as it matters where JSON is
// wanted: like grpc-gateway, routes take as JSON whatever is not known to be
// something else.
type label uint8

const (
	labelNone label = iota
	labelForm
	labelMultipart
)

func labelOf(contentType string) label {
	if contentType == "" || contentType == "application/json" {
		return labelNone
	}
	switch mediaType(contentType) {
	case "application/x-www-form-urlencoded":
		return labelForm
	case "multipart/form-data":
		return labelMultipart
	default:
		return labelNone
	}
}

// mediaType is a Content-Type without its parameters, in lower case.
func mediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// isForm tells whether a body that says it is a form is one. curl says so of
// whatever it is given by -d; but no form begins like an object or a list, whose
// brackets it would have to escape.
func (p *jsonPeer) isForm(body []byte) (bool, error) {
	text := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		return false, nil
	case p.match.Route.Forms:
		return true, nil
	case looksLikeForm(text):
		return false, errNotJSON
	default:
		return false, nil
	}
}

// looksLikeForm tells a form from what is meant to be JSON, and labelled wrongly.
func looksLikeForm(text []byte) bool {
	return len(text) > 0 && bytes.IndexByte([]byte(`{["`), text[0]) < 0 && bytes.IndexByte(text, '=') >= 0
}
