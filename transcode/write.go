package transcode

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// writer is the way out: it shows wire bytes as JSON without building a
// message.
//
// A message whose fields come in the order of their declaration, as most
// encoders write them, is written in one pass (write_message.go). At the first
// that does not, the whole response begins anew, with messages scanned for
// where their fields lie before they are written (write_records.go), and those
// of that type are from then on. That copes with all that is legal: fields in
// any order and in pieces, singular fields that come twice, oneofs, extensions.
//
// Its methods report false after w.fail has noted why.
type writer struct {
	engine *engine
	out    []byte
	// limit is how long out may become, about: it is looked at where a message
	// or an element begins, and at the end.
	limit int
	// err is why the response cannot be shown.
	err error
	// byRecords: no message is written in one pass.
	byRecords bool
	// merged is how many bytes were copied to merge messages.
	merged int
	// groups is how many groups are open.
	groups int

	// Of the messages that are open: their slots, records and extensions; the
	// entries of their maps.
	slots      []slot
	records    []record
	extensions []extension
	entries    []mapEntry
}

// maxResponseDepth is how deeply a response's messages may be nested, Any
// included: protobuf-go's limit for a message.
const maxResponseDepth = protowire.DefaultRecursionLimit

// maxMerged bounds what is copied of one response to merge messages, in bytes:
// messages in pieces inside messages in pieces are copied once per level.
const maxMerged = maxResponse

var (
	errMalformed   = errors.New("malformed wire bytes")
	errOutOfOrder  = errors.New("fields out of order") // never to be seen outside
	errTooDeep     = errors.New("messages nested too deeply")
	errMerged      = errors.New("too many messages in pieces")
	errNotUTF8     = errors.New("text that is not UTF-8")
	errMessageSet  = errors.New("a MessageSet has no JSON form")
	errTimestamp   = errors.New("google.protobuf.Timestamp out of range")
	errDuration    = errors.New("google.protobuf.Duration out of range")
	errFieldMask   = errors.New("google.protobuf.FieldMask has a path without JSON form")
	errValueUnset  = errors.New("google.protobuf.Value without a value")
	errValueNumber = errors.New("google.protobuf.Value of a number without JSON form")
	errAnyType     = errors.New("google.protobuf.Any without a type")
)

// fail notes why, if nothing was noted before.
func (w *writer) fail(err error) bool {
	if w.err == nil {
		w.err = err
	}
	return false
}

// failIn is fail for the value of a field.
func (w *writer) failIn(f *fieldPlan, err error) bool {
	if w.err == nil {
		w.err = fmt.Errorf("field %s: %w", f.desc.FullName(), err)
	}
	return false
}

// full tells whether the response has become too large.
func (w *writer) full() bool {
	if len(w.out) <= w.limit {
		return false
	}
	w.fail(ErrResponseTooLarge)
	return true
}

// writeResponse appends a whole response, or the field of it that is wanted.
// After an error, out is of no use.
func (m *Method) writeResponse(dst, wire []byte) (out []byte, err error) {
	w := m.engine.writers.Get().(*writer)
	w.engine, w.out, w.limit = m.engine, dst, len(dst)+maxResponse
	ok := w.response(m, wire)
	if !ok {
		// What comes later may make up for what seemed wrong: the other piece of a message, say.
		w.reset(dst)
		ok = w.response(m, wire)
	}
	if ok {
		w.full()
	}
	out, err = w.out, w.err
	w.release()
	return out, err
}

// reset prepares for a second try, without passes in order.
func (w *writer) reset(dst []byte) {
	w.out, w.err = dst, nil
	w.byRecords = true
	w.merged, w.groups = 0, 0
	w.slots, w.records = w.slots[:0], w.records[:0]
	w.drop(0, 0)
}

// drop takes away the entries and extensions from these on, and lets go of what they hold.
func (w *writer) drop(entries, extensions int) {
	clear(w.entries[entries:])
	clear(w.extensions[extensions:])
	w.entries, w.extensions = w.entries[:entries], w.extensions[:extensions]
}

// maxKept bounds the scratch space that a writer keeps between responses, in elements of each kind.
const maxKept = 1 << 12

// release lets go of the response and puts the writer back.
func (w *writer) release() {
	e := w.engine
	w.drop(0, 0)
	*w = writer{slots: w.slots[:0], records: w.records[:0], extensions: w.extensions[:0], entries: w.entries[:0]}
	if cap(w.slots) <= maxKept && cap(w.records) <= maxKept && cap(w.extensions) <= maxKept && cap(w.entries) <= maxKept {
		e.writers.Put(w)
	}
}

// response writes a whole response, or the field of it that is wanted.
func (w *writer) response(m *Method, wire []byte) bool {
	if len(m.response) == 0 {
		return w.value(m.output, wire, 1)
	}
	leaf := m.response[len(m.response)-1]
	wire, s, ok := w.locate(m, wire)
	switch {
	case !ok:
		return false
	case s.first == 0:
		return w.unset(leaf)
	default:
		_, ok = w.slot(leaf, s, wire, 1)
		return ok
	}
}

// locate finds the records of the field that a response body is, in the
// message that has it.
func (w *writer) locate(m *Method, wire []byte) (in []byte, s slot, ok bool) {
	mp := m.output
	for i, f := range m.response {
		base := len(w.slots)
		if !w.scan(mp, wire, 1) {
			return nil, slot{}, false
		}
		s = w.slots[base+f.index]
		if i == len(m.response)-1 {
			break
		}
		if s.first == 0 {
			wire = nil
		} else if wire, ok = w.content(f, s, wire, 1); !ok {
			return nil, slot{}, false
		}
		mp = f.message
	}
	return wire, s, true
}

// unset writes the value of a field that is not set: the empty value of its kind.
func (w *writer) unset(f *fieldPlan) bool {
	switch {
	case f.list:
		w.out = append(w.out, "[]"...)
	case f.isMap:
		w.out = append(w.out, "{}"...)
	case f.message != nil && f.message.special == isValue:
		w.out = append(w.out, "null"...)
	case f.message != nil:
		return w.value(f.message, nil, 1)
	default:
		return w.defaultValue(f)
	}
	return true
}
