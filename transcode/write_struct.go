package transcode

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// structValue writes a google.protobuf.Struct as an object.
func (w *writer) structValue(mp *messagePlan, wire []byte, depth int) bool {
	f := mp.fields[0]
	entries := w.newEntries()
	for len(wire) > 0 {
		n, ok := w.collect(f, &entries, wire, depth)
		if !ok {
			return false
		}
		if n == 0 {
			if _, _, n = w.next(wire, f, f); n < 0 {
				return false
			}
		}
		wire = wire[n:]
	}
	return w.writeEntries(f, entries, depth)
}

// listValue writes a google.protobuf.ListValue as an array.
func (w *writer) listValue(mp *messagePlan, wire []byte, depth int) bool {
	f := mp.fields[0]
	w.out = append(w.out, '[')
	for len(wire) > 0 {
		n, ok := w.elements(f, wire, depth)
		if !ok {
			return false
		}
		if n == 0 {
			if _, _, n = w.next(wire, f, f); n < 0 {
				return false
			}
		}
		wire = wire[n:]
	}
	w.out = append(w.out, ']')
	return true
}

// dynamicValue writes a google.protobuf.Value as what it holds.
func (w *writer) dynamicValue(mp *messagePlan, wire []byte, depth int) bool {
	// Nearly always there is one record.
	if tag, n := varint(wire); n > 0 {
		if f := mp.number(protowire.Number(min(tag>>3, 1<<29))); f != nil && tag == f.tag {
			if start, end, next := valueSpan(f, wire, n, protowireType(tag)); next == len(wire) {
				return w.kind(f, wire[start:end], depth)
			}
		}
	}
	slots, records := len(w.slots), len(w.records)
	if !w.scan(mp, wire, depth) {
		return false
	}
	set := w.slots[slots+len(mp.fields)].first
	if set == 0 {
		return w.fail(errValueUnset)
	}
	f := mp.fields[set-1]
	s := w.slots[slots+f.index]
	last := w.records[s.last-1]
	value, ok := wire[last.start:last.end], true
	if f.message != nil {
		value, ok = w.content(f, s, wire, depth)
	} else if !w.checkReplaced(f, s, wire) {
		return false
	}
	w.slots, w.records = w.slots[:slots], w.records[:records]
	return ok && w.kind(f, value, depth)
}

// kind writes the member of a google.protobuf.Value that is set.
func (w *writer) kind(f *fieldPlan, value []byte, depth int) bool {
	if f.message != nil {
		return w.value(f.message, value, depth+1)
	}
	if f.kind == protoreflect.DoubleKind {
		if v := math.Float64frombits(fixed64(value)); math.IsNaN(v) || math.IsInf(v, 0) {
			return w.fail(errValueNumber)
		}
	}
	_, _, ok := w.scalar(f, value)
	return ok
}
