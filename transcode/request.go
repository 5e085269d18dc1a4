package transcode

import (
	"encoding/json"
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
}

// maxScratch bounds the scratch space that is kept between requests, in elements.
const maxScratch = 1 << 10

// forgetParameters lets go of the query's text.
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
// With the whole message as body, the query is ignored. A path variable wins
// over the body's value of the same field, a repeated field's list included.
// The body and a path variable that set two members of one oneof are refused.
// The query sets neither what the path binds nor what lies in the body.
func (m *Method) AppendRequest(dst []byte, in Input) ([]byte, error) {
	out, err := m.appendRequest(dst, in)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (m *Method) appendRequest(dst []byte, in Input) ([]byte, error) {
	start := len(dst)
	hasBody := (m.wholeBody || m.body != nil) && !isBlank(in.Body)
	var err error
	if hasBody {
		if dst, err = m.appendBody(dst, in.Body); err != nil {
			return dst, err
		}
		if len(m.overrides) > 0 {
			if dst, err = m.override(dst, start); err != nil {
				return dst, err
			}
		}
	}
	if in.Query != "" && !m.noQuery {
		st := m.engine.requests.Get().(*requestState)
		dst, err = m.appendQuery(dst, st, in.Query, hasBody)
		m.engine.requests.Put(st)
		if err != nil {
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
	if m.required {
		return dst, m.checkRequired(dst[start:])
	}
	return dst, nil
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

// appendBody appends what a body that is not blank says.
func (m *Method) appendBody(dst, body []byte) ([]byte, error) {
	if out, ok := m.readBody(dst, body); ok {
		return out, nil
	}
	// The slow engine would build the message up to the fault, at a multiple of
	// the body's size, for no more than to say where it is.
	if !json.Valid(body) {
		return dst, syntaxError(body, pathString(m.body))
	}
	return m.slowBody(dst, body)
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
