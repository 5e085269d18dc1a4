package transcode

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Input is what a caller sent, taken apart.
type Input struct {
	// Body is the request body: JSON, or any bytes when [Method.RequestBody] is
	// RawBody, or a form when Form is set. Empty JSON, or only white space: none.
	Body []byte
	// Form: Body is application/x-www-form-urlencoded. It sets fields of the
	// message that the body is, as a query sets fields of the request.
	Form bool
	// ContentType is the body's media type, which goes into a google.api.HttpBody
	// when the body is raw.
	ContentType string
	// Query is the raw query, without the question mark.
	Query string
	// Vars are the path variables' values, decoded, in the binding's order.
	Vars []string
}

// requestState is the scratch space of one request, reused between requests.
type requestState struct {
	params []parameter
	steps  []*fieldPlan
	// hasMask: the query set the update mask.
	hasMask bool
}

// maxScratch bounds the scratch space that is kept between requests, in elements.
const maxScratch = 1 << 10

// forgetParameters lets go of the query's or form's text.
func (st *requestState) forgetParameters() {
	clear(st.params)
	st.params = st.params[:0]
	st.steps = st.steps[:0]
	if cap(st.params) > maxScratch {
		st.params = nil
	}
	if cap(st.steps) > maxScratch {
		st.steps = nil
	}
}

// AppendRequest appends the request message's wire bytes to dst. Bad input is
// an *Error; dst's own bytes are untouched then.
//
// With the whole message as body, the query is ignored, or refused where
// unknown fields are. A path variable wins over the body's value of the same
// field, a repeated field's list included. The body and a path variable that
// set two members of one oneof are refused. The query sets neither what the
// path binds nor what lies in the body.
//
// In a stream of requests, each message is put together like this, from its
// own body and the one query and path, so that none escapes what the path binds.
func (m *Method) AppendRequest(dst []byte, in Input) ([]byte, error) {
	st := m.engine.requests.Get().(*requestState)
	st.hasMask = false
	out, err := m.appendRequest(dst, st, in)
	m.engine.requests.Put(st)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (m *Method) appendRequest(dst []byte, st *requestState, in Input) ([]byte, error) {
	start := len(dst)
	dst, hasBody, err := m.appendBody(dst, st, in)
	if err != nil {
		return dst, err
	}
	if in.Query != "" && !m.noQuery {
		if dst, err = m.appendQuery(dst, st, in.Query, hasBody); err != nil {
			return dst, err
		}
	}
	if m.mask != nil && hasBody && !in.Form && !st.hasMask {
		if dst, err = m.appendMask(dst, in.Body); err != nil {
			return dst, err
		}
	}
	for i, v := range m.vars {
		if i >= len(in.Vars) {
			return dst, newError(v.path, "missing in the path")
		}
		var reason string
		if dst, reason = appendVariable(dst, v, in.Vars[i]); reason != "" {
			return dst, newError(v.path, reason)
		}
	}
	if m.input.needy {
		return dst, m.checkRequired(dst[start:])
	}
	return dst, nil
}

// appendBody appends what the body says, and tells whether there is one.
func (m *Method) appendBody(dst []byte, st *requestState, in Input) (_ []byte, hasBody bool, err error) {
	start := len(dst)
	switch {
	case m.requestKind == NoBody:
		return dst, false, nil
	case m.requestKind == RawBody:
		if len(in.Body) == 0 && in.ContentType == "" {
			return dst, false, nil
		}
		if dst, err = m.appendRaw(dst, in); err != nil {
			return dst, false, err
		}
	case in.Form:
		dst, err = m.appendForm(dst, st, string(in.Body))
		return dst, len(in.Body) > 0, err
	case isBlank(in.Body):
		return dst, false, nil
	default:
		if dst, err = m.readBody(dst, in.Body); err != nil {
			return dst, false, err
		}
	}
	if len(m.overrides) > 0 {
		dst, err = m.override(dst, start)
	}
	return dst, true, err
}

// readBody appends what JSON that is not blank says.
func (m *Method) readBody(dst, body []byte) ([]byte, error) {
	r := m.engine.readers.Get().(*reader)
	r.engine, r.in, r.out = m.engine, body, dst
	ok := r.body(m)
	out := r.out
	var err error
	if !ok {
		out, err = dst, r.fault(pathString(m.body))
	}
	r.release()
	return out, err
}

// appendVariable appends a path variable's field. A repeated field of the
// request itself takes a list separated by commas, as grpc-gateway's generated
// code has it; one further inside takes one element, as its
// PopulateFieldFromPath has it.
func appendVariable(dst []byte, v variable, value string) ([]byte, string) {
	leaf := v.leaf()
	if leaf.list && len(v.steps) == 1 {
		for element := range strings.SplitSeq(value, ",") {
			var reason string
			if dst, reason = appendTextField(dst, leaf, element); reason != "" {
				return dst, reason
			}
		}
		return dst, ""
	}
	start := len(dst)
	dst, reason := appendTextField(dst, leaf, value)
	if reason != "" {
		return dst, reason
	}
	return wrap(dst, start, v.steps[:len(v.steps)-1]), ""
}

func isBlank(b []byte) bool {
	for _, c := range b {
		switch c {
		case ' ', '\t', '\n', '\r':
		default:
			return false
		}
	}
	return true
}

func protowireTag(dst []byte, f *fieldPlan) []byte { return protowire.AppendVarint(dst, f.tag) }
