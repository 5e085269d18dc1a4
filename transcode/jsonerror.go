package transcode

// What is wrong with a body, in words for its sender.
const (
	malformed        = "malformed JSON"
	tooShort         = "the JSON ends too early"
	tooDeep          = "nested too deeply"
	moreThanOnce     = "given more than once"
	controlCharacter = "control character in a string"
)

// fail notes what is wrong, and at which byte; false, to be returned.
func (r *reader) fail(at int, reason string) bool {
	r.at, r.reason = at, reason
	return false
}

// invalid fails for the value that begins at at: it is no such thing.
func (r *reader) invalid(at int, what string) bool {
	if at == len(r.in) {
		return r.fail(at, tooShort)
	}
	switch r.in[at] {
	case '}', ']', ',', ':':
		return r.fail(at, "unexpected "+string(r.in[at:at+1]))
	}
	return r.fail(at, "not a valid "+what)
}

// unexpected fails for what comes next.
func (r *reader) unexpected() bool {
	reason := malformed
	switch c := r.next(); {
	case r.pos >= len(r.in):
		reason = tooShort
	case c == '{':
		reason = "unexpected object"
	case c == '[':
		reason = "unexpected array"
	case c == '"':
		reason = "unexpected string"
	case c == '-' || c >= '0' && c <= '9':
		reason = "unexpected number"
	case c == '}' || c == ']' || c == ',' || c == ':':
		reason = "unexpected " + string(rune(c))
	default:
		at := r.pos
		for _, word := range []string{"true", "false", "null"} {
			if r.literal(word) {
				reason = "unexpected " + word
			}
		}
		r.pos = at
	}
	return r.fail(r.pos, reason)
}

// fault makes an *Error of what the reader noted. at is the path of the body
// itself. The path inside it is found by the place, now that it is needed.
func (r *reader) fault(at string) *Error {
	field := fieldName(joinPath(at, jsonPath(r.in, r.at)))
	reason := r.reason
	if field == "" {
		reason = "request body: " + reason
	}
	return &Error{Field: field, Reason: reason, Offset: r.at}
}

func joinPath(at, path string) string {
	switch {
	case at == "":
		return path
	case path == "" || path[0] == '[':
		return at + path
	default:
		return at + "." + path
	}
}
