package transcode

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// writer is the direct engine's way out: it shows wire bytes as JSON without
// building a message. Each message is scanned once for where its fields lie,
// then written in the order of declaration.
//
// Its methods report false where the wire is malformed, or legal but unusual
// (a singular field twice, a list in pieces, extensions). They need not tell
// which: the slow engine then takes the whole message, and decides. So they
// must only ever be sure when they report true.
type writer struct {
	engine *engine
	out    []byte
	// spans say where the fields of the messages that are open lie.
	spans []span
	// entries are the entries of the maps that are open.
	entries []mapEntry
	// limit is how long out may become, about: it is looked at where a message
	// or an element begins, and at the end. tooLarge: that was the reason.
	limit    int
	tooLarge bool
}

// full tells whether the response has become too large.
func (w *writer) full() bool {
	w.tooLarge = w.tooLarge || len(w.out) > w.limit
	return w.tooLarge
}

// span is where a field lies in its message: a singular field's value without
// its length; all the records, with their tags, of a list or map. An empty
// span at 0 is an unset field; no set one begins there, as a tag comes first
// or, for records, the span is not empty.
type span struct{ start, end int }

func (s span) unset() bool { return s == span{} }

// writeResponse shows a whole response. It reports false, with dst as it was,
// for the slow engine to take over unless the response is too large.
func (m *Method) writeResponse(dst, wire []byte) (out []byte, ok, tooLarge bool) {
	w := m.engine.writers.Get().(*writer)
	w.engine, w.out, w.limit = m.engine, dst, len(dst)+maxResponse
	ok = w.response(m, wire) && !w.full()
	out, tooLarge = w.out, w.tooLarge
	w.release()
	if !ok {
		return dst, false, tooLarge
	}
	return out, true, false
}

// release lets go of the response and puts the writer back.
func (w *writer) release() {
	e := w.engine
	clear(w.entries)
	*w = writer{spans: w.spans[:0], entries: w.entries[:0]}
	if cap(w.spans) <= maxScratch && cap(w.entries) <= maxScratch {
		e.writers.Put(w)
	}
}

// response writes a whole response, or the field of it that is wanted.
func (w *writer) response(m *Method, wire []byte) bool {
	if m.response == nil {
		return m.output.isPlain() && w.message(m.output, wire, 1)
	}
	mp := m.output
	for i, f := range m.response {
		if !mp.isPlain() || !w.scan(mp, wire) {
			return false
		}
		s := w.spans[f.index]
		w.spans = w.spans[:0]
		// The empty values of unset fields are left to the slow engine.
		if s.unset() {
			return false
		}
		if i == len(m.response)-1 {
			_, ok := w.field(f, wire, s, 1)
			return ok
		}
		mp, wire = f.message, wire[s.start:s.end]
	}
	return false
}

// scan finds the fields of a message and pushes their spans, one for each
// field of the plan.
func (w *writer) scan(mp *messagePlan, wire []byte) bool {
	base := len(w.spans)
	w.push(len(mp.fields))
	spans := w.spans[base:]
	var oneofs uint64
	for pos := 0; pos < len(wire); {
		record := pos
		tag, n := varint(wire[pos:])
		pos += n
		num := protowire.Number(tag >> 3)
		if n <= 0 || num < protowire.MinValidNumber || tag>>3 > uint64(protowire.MaxValidNumber) {
			return false
		}
		start, end := valueSpan(wire, pos, protowire.Type(tag&7))
		if end < 0 {
			return false
		}
		pos = end
		f := mp.number(num)
		if f == nil {
			if mp.extendable {
				return false
			}
			continue
		}
		s := &spans[f.index]
		if f.list || f.isMap {
			if tag != f.tag && !(f.list && f.packable() && tag&7 == uint64(protowire.BytesType)) {
				return false
			}
			if s.unset() {
				s.start = record
			} else if s.end != record {
				return false
			}
			s.end = end
			continue
		}
		if tag != f.tag || !s.unset() {
			return false
		}
		if f.oneof >= 0 {
			bit := uint64(1) << f.oneof
			if oneofs&bit != 0 {
				return false
			}
			oneofs |= bit
		}
		*s = span{start, end}
	}
	return true
}

// packable: a list of it may come packed, whatever the descriptor says.
func (f *fieldPlan) packable() bool { return protowire.Type(f.tag&7) != protowire.BytesType }

// push adds n spans of unset fields.
func (w *writer) push(n int) {
	if len(w.spans)+n <= cap(w.spans) {
		w.spans = w.spans[:len(w.spans)+n]
		clear(w.spans[len(w.spans)-n:])
		return
	}
	w.spans = append(w.spans, make([]span, n)...)
}

// valueSpan is where the value at pos lies, without its length if it has one.
// A negative end: it is malformed, or a group.
func valueSpan(wire []byte, pos int, t protowire.Type) (start, end int) {
	switch t {
	case protowire.VarintType:
		_, n := varint(wire[pos:])
		if n <= 0 {
			return 0, -1
		}
		return pos, pos + n
	case protowire.Fixed32Type:
		if len(wire)-pos < 4 {
			return 0, -1
		}
		return pos, pos + 4
	case protowire.Fixed64Type:
		if len(wire)-pos < 8 {
			return 0, -1
		}
		return pos, pos + 8
	case protowire.BytesType:
		size, n := varint(wire[pos:])
		if n <= 0 || size > uint64(len(wire)-pos-n) {
			return 0, -1
		}
		return pos + n, pos + n + int(size)
	default:
		return 0, -1
	}
}

// varint reads a varint and its size, which is not positive if it is malformed.
func varint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return protowire.ConsumeVarint(b)
}

func fixed32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func fixed64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
