package transcode

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"

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
	size := protowire.SizeTag(httpBodyData) + protowire.SizeBytes(len(chunk))
	dst = appendHeads(slices.Grow(dst, size+maxHead*len(m.body)), m.body, size)
	dst = protowire.AppendTag(dst, httpBodyData, protowire.BytesType)
	dst = protowire.AppendBytes(dst, chunk)
	return appendTails(dst, m.body), nil
}

// appendRaw appends the first message of a raw body. The sizes are known, so
// that the data is copied once.
func (m *Method) appendRaw(dst []byte, in Input) ([]byte, error) {
	if !utf8.ValidString(in.ContentType) {
		return dst, newError("", "the content type is not valid UTF-8")
	}
	size := 0
	if in.ContentType != "" {
		size += protowire.SizeTag(httpBodyContentType) + protowire.SizeBytes(len(in.ContentType))
	}
	if len(in.Body) > 0 {
		size += protowire.SizeTag(httpBodyData) + protowire.SizeBytes(len(in.Body))
	}
	dst = appendHeads(slices.Grow(dst, size+maxHead*len(m.body)), m.body, size)
	if in.ContentType != "" {
		dst = protowire.AppendTag(dst, httpBodyContentType, protowire.BytesType)
		dst = protowire.AppendString(dst, in.ContentType)
	}
	if len(in.Body) > 0 {
		dst = protowire.AppendTag(dst, httpBodyData, protowire.BytesType)
		dst = protowire.AppendBytes(dst, in.Body)
	}
	return appendTails(dst, m.body), nil
}

// maxHead is how long the tag and length before a message are at the most.
const maxHead = 5 + binary.MaxVarintLen64

// appendHeads appends what comes before size bytes of the message at the end of a path.
func appendHeads(dst []byte, path []*fieldPlan, size int) []byte {
	for i, f := range path {
		dst = protowire.AppendVarint(dst, f.tag)
		if f.kind != protoreflect.GroupKind {
			dst = protowire.AppendVarint(dst, uint64(sizeInside(path[i+1:], size)))
		}
	}
	return dst
}

// sizeInside is the size of a message that holds size bytes at the end of a path.
func sizeInside(path []*fieldPlan, size int) int {
	for i := len(path) - 1; i >= 0; i-- {
		if f := path[i]; f.kind == protoreflect.GroupKind {
			size += 2 * protowire.SizeVarint(f.tag)
		} else {
			size = protowire.SizeVarint(f.tag) + protowire.SizeBytes(size)
		}
	}
	return size
}

// appendTails appends what comes after the message at the end of a path.
func appendTails(dst []byte, path []*fieldPlan) []byte {
	for i := len(path) - 1; i >= 0; i-- {
		if f := path[i]; f.kind == protoreflect.GroupKind {
			dst = protowire.AppendTag(dst, f.num, protowire.EndGroupType)
		}
	}
	return dst
}
