package transcode

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// reader is the way in: it compiles JSON to wire bytes in one pass, without
// building a message. What it takes, and to which message, is what protojson
// takes into dynamicpb, but for what stands under "What differs" in the
// package's documentation.
//
// Its methods report false when the input is bad, and have said why by fail.
// Where they begin and end, white space has been skipped before and not after.
type reader struct {
	engine *engine
	in     []byte
	pos    int
	out    []byte
	// keys are where the keys of the maps that are open lie in out.
	keys []keySpan
	// dropped are the keys of entries that are no longer in out.
	dropped []byte
	// seen are bit sets, one on the other: which fields and oneofs the messages that are open have had.
	seen []uint64
	// extensions are the numbers of those that the messages that are open have had.
	extensions []protowire.Number
	// lengths are those for which there is no room yet, noted the bytes that they need in all.
	lengths []longLength
	noted   int
	// text is the last string that had escapes in it.
	text []byte
	// skipped: the value just read is none, an enum's name that nobody knows.
	skipped bool
	// searched is how many bytes were looked through for an Any's type, ahead of reading them.
	searched int

	// What is wrong, and where.
	reason string
	at     int
}

// release lets go of the body and puts the reader back.
func (r *reader) release() {
	e := r.engine
	*r = reader{
		keys: r.keys[:0], dropped: r.dropped[:0], seen: r.seen[:0],
		extensions: r.extensions[:0], lengths: r.lengths[:0], text: r.text[:0],
	}
	if max(cap(r.keys), cap(r.dropped), cap(r.seen), cap(r.extensions), cap(r.lengths), cap(r.text)) <= maxScratch {
		e.readers.Put(r)
	}
}

// body reads a whole body.
func (r *reader) body(m *Method) bool {
	r.space()
	if m.wholeBody {
		return r.content(m.input, 1) && r.finish()
	}
	leaf, outer := m.body[len(m.body)-1], m.body[:len(m.body)-1]
	start := len(r.out)
	var ok bool
	if leaf.inside() != nil {
		// A message's depth counts from itself; null is none.
		ok = r.field(leaf, 0)
	} else {
		// An element's or entry's depth counts from the message that has the field; null leaves that unset.
		ok = r.member(leaf, 1)
	}
	if !ok || !r.finish() {
		return false
	}
	if len(r.out) > start {
		r.out = wrap(r.out, start, outer)
	}
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
	if r.pos < len(r.in) && r.in[r.pos] <= ' ' {
		r.spaces()
	}
}

func (r *reader) spaces() {
	for r.pos < len(r.in) {
		switch r.in[r.pos] {
		case ' ', '\n', '\r', '\t':
			r.pos++
		default:
			return
		}
	}
}

// finish ends the body, after which there is only white space.
func (r *reader) finish() bool {
	r.space()
	if r.pos < len(r.in) {
		return r.unexpected()
	}
	r.settle()
	return true
}

// open skips the bracket c that an object or array begins with, and the white
// space after it.
func (r *reader) open(c byte) bool {
	if r.next() != c {
		return r.unexpected()
	}
	r.pos++
	r.space()
	return true
}

// empty skips the bracket c, if an object or array ends with it right after it began.
func (r *reader) empty(c byte) bool {
	if r.next() != c {
		return false
	}
	r.pos++
	return true
}

// more reads what comes after a member or an element: a comma, then there is
// more, or the closing bracket.
func (r *reader) more(closing byte) (more, ok bool) {
	r.space()
	switch r.next() {
	case ',':
		r.pos++
		r.space()
		return true, true
	case closing:
		r.pos++
		return false, true
	}
	return false, r.unexpected()
}

// literal skips true, false or null.
func (r *reader) literal(s string) bool {
	if len(r.in)-r.pos >= len(s) && string(r.in[r.pos:r.pos+len(s)]) == s {
		r.pos += len(s)
		return true
	}
	return false
}

// null skips a null that is there by its first letter.
func (r *reader) null() bool { return r.literal("null") || r.unexpected() }
