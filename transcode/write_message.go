package transcode

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// value writes a message in its JSON form. depth is that of the message, 1 for
// the outermost.
func (w *writer) value(mp *messagePlan, wire []byte, depth int) bool {
	if w.full() {
		return false
	}
	if depth > maxResponseDepth {
		return w.fail(errTooDeep)
	}
	switch mp.special {
	case isTimestamp:
		return w.timestamp(wire)
	case isDuration:
		return w.duration(wire)
	case isWrapper:
		return w.wrapper(mp, wire)
	case isFieldMask:
		return w.fieldMask(mp, wire)
	case isStruct:
		return w.structValue(mp, wire, depth)
	case isListValue:
		return w.listValue(mp, wire, depth)
	case isValue:
		return w.dynamicValue(mp, wire, depth)
	case isAny:
		return w.any(mp, wire, depth)
	}
	w.out = append(w.out, '{')
	if !w.members(mp, wire, depth) {
		return false
	}
	w.out = append(w.out, '}')
	return true
}

// members writes a message's fields as members of an object that has begun.
func (w *writer) members(mp *messagePlan, wire []byte, depth int) bool {
	if mp.messageSet {
		return w.fail(errMessageSet)
	}
	if w.byRecords || mp.disorderly.Load() {
		return w.membersByRecords(mp, wire, depth)
	}
	return w.membersInOrder(mp, wire, depth)
}

// outOfOrder gives up passes in order for this response, and for messages of a type.
func (w *writer) outOfOrder(mp *messagePlan) bool {
	mp.disorderly.Store(true)
	return w.fail(errOutOfOrder)
}

// membersInOrder writes fields as they come, if that is in the order of their
// declaration and each at once.
func (w *writer) membersInOrder(mp *messagePlan, wire []byte, depth int) bool {
	next := 0 // the field that may come next
	var oneofs uint64
	for pos := 0; pos < len(wire); {
		tag, n := varint(wire[pos:])
		num := protowire.Number(tag >> 3)
		if n <= 0 || tag>>3 > uint64(protowire.MaxValidNumber) || num < protowire.MinValidNumber {
			return w.fail(errMalformed)
		}
		f := mp.number(num)
		if f == nil || !f.takes(tag) {
			if f == nil && mp.extendable {
				return w.outOfOrder(mp)
			}
			size := protowire.ConsumeFieldValue(num, protowireType(tag), wire[pos+n:])
			if size < 0 {
				return w.fail(errMalformed)
			}
			pos += n + size
			continue
		}
		if f.index < next {
			return w.outOfOrder(mp)
		}
		if f.oneof >= 0 {
			bit := uint64(1) << (f.oneof & 63)
			if f.oneof > 63 || oneofs&bit != 0 {
				return w.outOfOrder(mp)
			}
			oneofs |= bit
		}
		if w.engine.emitDefaults {
			w.zeroMembers(mp.fields[next:f.index])
		}
		next = f.index + 1
		mark := len(w.out)
		w.memberName(f)
		var unset, ok bool
		switch {
		case f.list:
			w.out = append(w.out, '[')
			n, ok = w.elements(f, wire[pos:], depth)
			unset = w.out[len(w.out)-1] == '['
			w.out = append(w.out, ']')
		case f.isMap:
			entries := w.newEntries()
			n, ok = w.collect(f, &entries, wire[pos:], depth)
			ok = ok && w.writeEntries(f, entries, depth)
		default:
			pos += n
			n, unset, ok = w.singular(f, wire[pos:], depth)
			unset = unset && !f.presence
		}
		if !ok {
			return false
		}
		if unset && !w.engine.emitDefaults {
			w.out = w.out[:mark]
		}
		pos += n
	}
	if w.engine.emitDefaults {
		w.zeroMembers(mp.fields[next:])
	}
	return true
}

// memberName begins a member. Only the first of an object has a brace before it.
func (w *writer) memberName(f *fieldPlan) {
	name := f.member
	if w.out[len(w.out)-1] == '{' {
		name = name[1:]
	}
	w.out = append(w.out, name...)
}

// zeroMembers writes the members of fields that are not set.
func (w *writer) zeroMembers(fields []*fieldPlan) {
	for _, f := range fields {
		if !f.omitUnset {
			w.memberName(f)
			w.out = append(w.out, f.zero...)
		}
	}
}

// singular writes the value that wire begins with, after its tag, and tells
// its size on the wire. zero: it is the zero value of a scalar.
func (w *writer) singular(f *fieldPlan, wire []byte, depth int) (n int, zero, ok bool) {
	switch protowireType(f.tag) {
	case protowire.BytesType:
		size, n := varint(wire)
		if n <= 0 || size > uint64(len(wire)-n) {
			return 0, false, w.fail(errMalformed)
		}
		end := n + int(size)
		if f.message != nil {
			return end, false, w.value(f.message, wire[n:end], depth+1)
		}
		_, zero, ok = w.scalar(f, wire[n:end])
		return end, zero, ok
	case protowire.StartGroupType:
		content, n := protowire.ConsumeGroup(f.num, wire)
		if n < 0 {
			return 0, false, w.fail(errMalformed)
		}
		return n, false, w.group(f, content, depth)
	default:
		return w.scalar(f, wire)
	}
}

// maxGroupDepth is how deeply groups may be nested. The end of each is looked
// for before it is written.
const maxGroupDepth = 100

// group writes the content of a group.
func (w *writer) group(f *fieldPlan, content []byte, depth int) bool {
	if w.groups++; w.groups > maxGroupDepth {
		return w.fail(errTooDeep)
	}
	ok := w.value(f.message, content, depth+1)
	w.groups--
	return ok
}

// takes tells whether the field's values come with the tag's wire type; those
// that come with another are unknown fields.
func (f *fieldPlan) takes(tag uint64) bool {
	return tag == f.tag || tag == f.runTag
}

// elements writes the elements of a list that come at once, from the tag of
// the first on, with the array open, and tells their size on the wire. It
// ends where another field begins.
func (w *writer) elements(f *fieldPlan, wire []byte, depth int) (pos int, ok bool) {
	for pos < len(wire) {
		tag, n := varint(wire[pos:])
		if n <= 0 || !f.takes(tag) {
			return pos, true
		}
		pos += n
		if tag == f.tag {
			w.comma()
			if n, _, ok = w.singular(f, wire[pos:], depth); !ok || w.full() {
				return 0, false
			}
			pos += n
			continue
		}
		size, n := varint(wire[pos:])
		if n <= 0 || size > uint64(len(wire)-pos-n) {
			return 0, w.fail(errMalformed)
		}
		run := wire[pos+n : pos+n+int(size)]
		pos += n + int(size)
		for len(run) > 0 {
			w.comma()
			if n, _, ok = w.scalar(f, run); !ok || w.full() {
				return 0, false
			}
			run = run[n:]
		}
	}
	return pos, true
}

// comma parts elements. Only the first of an array has a bracket before it.
func (w *writer) comma() {
	if w.out[len(w.out)-1] != '[' {
		w.out = append(w.out, ',')
	}
}
