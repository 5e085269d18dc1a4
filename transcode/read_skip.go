package transcode

import "unicode/utf8"

// skip reads over any value that is nested at most depth deep.
func (r *reader) skip(depth int) bool {
	ok := false
	switch r.next() {
	case '{':
		return r.skipObject(depth - 1)
	case '[':
		return r.skipArray(depth - 1)
	case '"':
		return r.skipString()
	case 't':
		ok = r.literal("true")
	case 'f':
		ok = r.literal("false")
	case 'n':
		ok = r.literal("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		_, _, ok = r.number()
		return ok
	}
	return ok || r.unexpected()
}

func (r *reader) skipObject(depth int) bool {
	if depth < 0 {
		return r.fail(r.pos, tooDeep)
	}
	r.open('{')
	if r.empty('}') {
		return true
	}
	for {
		if r.next() != '"' {
			return r.unexpected()
		}
		if !r.skipString() || !r.colon() || !r.skip(depth) {
			return false
		}
		if more, ok := r.more('}'); !more {
			return ok
		}
	}
}

func (r *reader) skipArray(depth int) bool {
	if depth < 0 {
		return r.fail(r.pos, tooDeep)
	}
	r.open('[')
	if r.empty(']') {
		return true
	}
	for {
		if !r.skip(depth) {
			return false
		}
		if more, ok := r.more(']'); !more {
			return ok
		}
	}
}

// skipString reads over a string, which it checks as if it were wanted.
func (r *reader) skipString() bool {
	start := r.pos + 1
	ascii := true
	for i := start; ; i++ {
		if i += plain(r.in[i:]); i == len(r.in) {
			return r.fail(i, tooShort)
		}
		switch c := r.in[i]; {
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '\\':
			_, ok := r.unescape(start)
			return ok
		case c < ' ':
			return r.fail(i, controlCharacter)
		default:
			r.pos = i + 1
			return ascii || r.utf8(start, r.in[start:i])
		}
	}
}
