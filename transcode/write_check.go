package transcode

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// What another value replaces is not shown, but a message with a malformed
// value is malformed all the same, as protobuf-go has it.

// checkSlot checks all records of a singular field.
func (w *writer) checkSlot(f *fieldPlan, s slot, wire []byte, depth int) bool {
	for i := s.first; i > 0; i = w.records[i-1].next {
		r := w.records[i-1]
		if !w.checkValue(f, wire[r.start:r.end], depth) {
			return false
		}
	}
	return true
}

// checkReplaced checks the records of a scalar, string or bytes field but for the last.
func (w *writer) checkReplaced(f *fieldPlan, s slot, wire []byte) bool {
	for i := s.first; i != s.last; i = w.records[i-1].next {
		r := w.records[i-1]
		if !w.checkValue(f, wire[r.start:r.end], 0) {
			return false
		}
	}
	return true
}

// checkValue checks one value, the size of which is right.
func (w *writer) checkValue(f *fieldPlan, value []byte, depth int) bool {
	switch {
	case f.message != nil:
		return w.check(f.message, value, depth+1)
	case f.utf8 && !utf8.Valid(value):
		return w.failIn(f, errNotUTF8)
	default:
		return true
	}
}

// check checks a message.
func (w *writer) check(mp *messagePlan, wire []byte, depth int) bool {
	if depth > maxResponseDepth {
		return w.fail(errTooDeep)
	}
	if mp.messageSet {
		return w.fail(errMessageSet)
	}
	for pos := 0; pos < len(wire); {
		rec := w.found(mp, wire, pos)
		if rec.next < 0 {
			return false
		}
		pos = rec.next
		if rec.field != nil && !w.checkRecord(rec.field, rec.tag, wire[rec.start:rec.end], depth) {
			return false
		}
	}
	return true
}

// checkRecord checks what one record holds.
func (w *writer) checkRecord(f *fieldPlan, tag uint64, content []byte, depth int) bool {
	switch {
	case f.isMap:
		return w.checkEntry(f, content, depth)
	case tag != f.tag:
		for len(content) > 0 {
			_, _, next := valueSpan(f, content, 0, protowireType(f.tag))
			if next < 0 {
				return w.fail(errMalformed)
			}
			content = content[next:]
		}
		return true
	case protowireType(f.tag) == protowire.StartGroupType:
		if w.groups++; w.groups > maxGroupDepth {
			return w.fail(errTooDeep)
		}
		ok := w.checkValue(f, content, depth)
		w.groups--
		return ok
	default:
		return w.checkValue(f, content, depth)
	}
}
