package transcode

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// BodyKind says what the body of a binding's request or response is.
type BodyKind int

const (
	// NoBody means that the binding has none.
	NoBody BodyKind = iota
	// JSONBody is one JSON value.
	JSONBody
	// RawBody is any bytes with a media type: the bound message is a google.api.HttpBody.
	RawBody
)

// String names the kind for logs.
func (k BodyKind) String() string {
	switch k {
	case NoBody:
		return "none"
	case JSONBody:
		return "JSON"
	case RawBody:
		return "raw"
	default:
		return fmt.Sprintf("BodyKind(%d)", int(k))
	}
}

// HTTPBody is what a google.api.HttpBody carries; its extensions are left out,
// as grpc-gateway leaves them.
type HTTPBody struct {
	// ContentType is the media type as the backend wrote it, which may be no
	// valid header value; empty: none said.
	ContentType string
	// Data is the content, and part of the message that was given.
	Data []byte
}

// The fields of google.api.HttpBody.
const (
	httpBodyContentType = protowire.Number(1)
	httpBodyData        = protowire.Number(2)
)

// isHTTPBody tells a google.api.HttpBody by its name and shape.
func isHTTPBody(md protoreflect.MessageDescriptor) bool {
	if md == nil || md.FullName() != "google.api.HttpBody" {
		return false
	}
	is := func(n protowire.Number, k protoreflect.Kind) bool {
		fd := md.Fields().ByNumber(n)
		return fd != nil && fd.Kind() == k && !fd.IsList()
	}
	return is(httpBodyContentType, protoreflect.StringKind) && is(httpBodyData, protoreflect.BytesKind)
}

// bodyKind is the kind of a body that is the field at the end of path, or all
// of the message when there is no path.
func bodyKind(whole *messagePlan, path []*fieldPlan, httpBodyAsJSON bool) BodyKind {
	if httpBodyAsJSON {
		return JSONBody
	}
	mp := whole
	if len(path) > 0 {
		mp = path[len(path)-1].inside()
	}
	if mp != nil && isHTTPBody(mp.desc) {
		return RawBody
	}
	return JSONBody
}

// RequestBody says what the body of a request is: NoBody where the binding has
// none. Of a RawBody, [Method.AppendRequest] takes the first piece with its
// content type, and [Method.AppendChunk] the others.
func (m *Method) RequestBody() BodyKind { return m.requestKind }

// ResponseBody says what responses are: JSONBody, for which there is
// [Method.AppendResponse], or RawBody, for which there is [Method.HTTPBody].
func (m *Method) ResponseBody() BodyKind { return m.responseKind }

// HTTPBody takes a response apart whose body is raw. In a stream of responses,
// each has its part of the data, and the first one's content type counts. A
// *ResponseError says that wire is no such message.
func (m *Method) HTTPBody(wire []byte) (HTTPBody, error) {
	wire, err := m.shown(wire)
	if err != nil {
		return HTTPBody{}, m.responseError(err)
	}
	var body HTTPBody
	for len(wire) > 0 {
		num, t, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return HTTPBody{}, m.responseError(protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(num, t, wire[n:])
		if size < 0 {
			return HTTPBody{}, m.responseError(protowire.ParseError(size))
		}
		if t == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(wire[n:])
			switch num {
			case httpBodyContentType:
				body.ContentType = string(value)
			case httpBodyData:
				body.Data = value
			}
		}
		wire = wire[n+size:]
	}
	return body, nil
}

// shown is the content of the message that responses show: part of wire, but
// where it comes in pieces.
func (m *Method) shown(wire []byte) ([]byte, error) {
	if len(m.response) == 0 {
		return wire, nil
	}
	w := m.engine.writers.Get().(*writer)
	w.engine = m.engine
	defer w.release()
	in, s, ok := w.locate(m, wire)
	if !ok || s.first == 0 {
		return nil, w.err
	}
	content, _ := w.content(m.response[len(m.response)-1], s, in, 1)
	return content, w.err
}

// AppendChunk appends a request message that holds nothing but chunk, as
// further data of an upload whose body is raw: its first message, with content
// type, path variables and query, is [Method.AppendRequest]'s.
func (m *Method) AppendChunk(dst, chunk []byte) ([]byte, error) {
	if m.requestKind != RawBody {
		return dst, newError("", "the request has no raw body")
	}
	start := len(dst)
	dst = protowire.AppendTag(dst, httpBodyData, protowire.BytesType)
	dst = protowire.AppendBytes(dst, chunk)
	return wrap(dst, start, m.body), nil
}
