package transcode

import (
	"unicode/utf8"
)

// reader is the direct engine's way in: it compiles JSON to wire bytes in one
// pass, without building a message.
//
// Its methods report false where the input is malformed, or legal but unusual
// (escapes in names, exponents in integers, extensions, names of enum values
// that are not known). They need not tell which: the slow engine then takes
// the whole body, and decides. So they must only ever be sure when they
// report true.
type reader struct {
	engine *engine
	in     []byte
	pos    int
	out    []byte
	// keys are where the keys of the maps that are open lie in out.
	keys []keySpan
}

// keySpan is a map key's encoded value in the output.
type keySpan struct{ start, end int }

// readBody compiles a whole body. It reports false, with dst as it was, for
// the slow engine to take over.
func (m *Method) readBody(dst, body []byte) ([]byte, bool) {
	r := m.engine.readers.Get().(*reader)
	r.engine, r.in, r.pos, r.out = m.engine, body, 0, dst
	ok := r.body(m)
	out := r.out
	r.release()
	if !ok {
		return dst, false
	}
	return out, true
}

// release lets go of the body and puts the reader back.
func (r *reader) release() {
	e := r.engine
	*r = reader{keys: r.keys[:0]}
	if cap(r.keys) <= maxScratch {
		e.readers.Put(r)
	}
}

// body reads a whole body.
func (r *reader) body(m *Method) bool {
	r.space()
	if m.wholeBody {
		return m.input.isPlain() && r.message(m.input, 1) && r.end()
	}
	leaf, outer := m.body[len(m.body)-1], m.body[:len(m.body)-1]
	// A message's depth counts from itself, an element's or entry's from the message that has the field.
	depth := 1
	if leaf.inside() != nil {
		depth = 0
	}
	start := len(r.out)
	// null is no value of a field, though it may stand for an unset one.
	if !r.field(leaf, depth) || !r.end() {
		return false
	}
	r.out = wrap(r.out, start, outer)
	return true
}

// next is the byte that comes next; 0: none.
func (r *reader) next() byte {
	if r.pos < len(r.in) {
		return r.in[r.pos]
	}
	return 0
}

// space skips white space.
func (r *reader) space() {
	for r.pos < len(r.in) {
		switch r.in[r.pos] {
		case ' ', '\n', '\r', '\t':
			r.pos++
		default:
			return
		}
	}
}

// end tells whether nothing but white space is left.
func (r *reader) end() bool {
	r.space()
	return r.pos == len(r.in)
}

// eat skips one byte and the white space after it, if it is c.
func (r *reader) eat(c byte) bool {
	if r.pos < len(r.in) && r.in[r.pos] == c {
		r.pos++
		r.space()
		return true
	}
	return false
}

// literal skips true, false or null.
func (r *reader) literal(s string) bool {
	if len(r.in)-r.pos >= len(s) && string(r.in[r.pos:r.pos+len(s)]) == s {
		r.pos += len(s)
		return true
	}
	return false
}

// plain reads a string of ASCII characters without escapes: its content, which
// is part of the input.
func (r *reader) plain() ([]byte, bool) {
	if r.next() != '"' {
		return nil, false
	}
	start := r.pos + 1
	for i := start; i < len(r.in); i++ {
		switch c := r.in[i]; {
		case c == '"':
			r.pos = i + 1
			return r.in[start:i], true
		case c == '\\' || c < ' ' || c >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

// number reads a number's text by JSON's grammar, and tells whether it has
// neither fraction nor exponent.
func (r *reader) number() (text []byte, integer, ok bool) {
	start, i := r.pos, r.pos
	if i < len(r.in) && r.in[i] == '-' {
		i++
	}
	switch {
	case i < len(r.in) && r.in[i] == '0':
		i++
	case i < len(r.in) && r.in[i] >= '1' && r.in[i] <= '9':
		i = r.digits(i)
	default:
		return nil, false, false
	}
	integer = true
	if i < len(r.in) && r.in[i] == '.' {
		integer = false
		j := r.digits(i + 1)
		if j == i+1 {
			return nil, false, false
		}
		i = j
	}
	if i < len(r.in) && (r.in[i] == 'e' || r.in[i] == 'E') {
		integer = false
		i++
		if i < len(r.in) && (r.in[i] == '+' || r.in[i] == '-') {
			i++
		}
		j := r.digits(i)
		if j == i {
			return nil, false, false
		}
		i = j
	}
	r.pos = i
	return r.in[start:i], integer, true
}

// digits skips digits from i on.
func (r *reader) digits(i int) int {
	for i < len(r.in) && r.in[i] >= '0' && r.in[i] <= '9' {
		i++
	}
	return i
}

// skip reads over any value that is nested at most depth deep.
func (r *reader) skip(depth int) bool {
	switch r.next() {
	case '{':
		return depth > 0 && r.skipObject(depth-1)
	case '[':
		return depth > 0 && r.skipArray(depth-1)
	case '"':
		return r.skipString()
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case 'n':
		return r.literal("null")
	default:
		_, _, ok := r.number()
		return ok
	}
}

func (r *reader) skipObject(depth int) bool {
	r.eat('{')
	if r.next() == '}' {
		r.pos++
		return true
	}
	for {
		if !r.skipString() {
			return false
		}
		r.space()
		if !r.eat(':') || !r.skip(depth) {
			return false
		}
		if more, ok := r.more('}'); !more {
			return ok
		}
	}
}

func (r *reader) skipArray(depth int) bool {
	r.eat('[')
	if r.next() == ']' {
		r.pos++
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

// more reads what comes after a member or an element: a comma, then there is
// more, or the closing character.
func (r *reader) more(closing byte) (more, ok bool) {
	r.space()
	if r.eat(',') {
		return true, true
	}
	if r.next() != closing {
		return false, false
	}
	r.pos++
	return false, true
}

// skipString reads over a string, which it checks as if it were wanted.
func (r *reader) skipString() bool {
	mark := len(r.out)
	ok := r.str()
	r.out = r.out[:mark]
	return ok
}
