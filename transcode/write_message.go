package transcode

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// message writes a plain message as an object. depth is that of the message,
// 1 for the outermost.
func (w *writer) message(mp *messagePlan, wire []byte, depth int) bool {
	if depth > maxDepth || w.full() {
		return false
	}
	base := len(w.spans)
	if !w.scan(mp, wire) {
		return false
	}
	w.out = append(w.out, '{')
	first := true
	for i, f := range mp.fields {
		s := w.spans[base+i]
		if s.unset() && (f.omitUnset || !w.engine.emitDefaults) {
			continue
		}
		mark := len(w.out)
		if !first {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, f.key...)
		if s.unset() {
			w.out = append(w.out, f.zero...)
			first = false
			continue
		}
		unset, ok := w.field(f, wire, s, depth)
		if !ok {
			return false
		}
		if unset && !w.engine.emitDefaults {
			w.out = w.out[:mark]
			continue
		}
		first = false
	}
	w.spans = w.spans[:base]
	w.out = append(w.out, '}')
	return true
}

// field writes the value of a field of a message at depth. unset: the field
// is on the wire, but with what counts as unset.
func (w *writer) field(f *fieldPlan, wire []byte, s span, depth int) (unset, ok bool) {
	switch {
	case f.list:
		return w.list(f, wire[s.start:s.end], depth)
	case f.isMap:
		return false, w.mapField(f, wire[s.start:s.end], depth)
	case f.message != nil:
		return false, w.nested(f.message, wire[s.start:s.end], depth)
	}
	_, zero, ok := w.scalar(f, wire[s.start:s.end])
	return zero && !f.presence, ok
}

// list writes the records of a repeated field, packed or not, as an array.
func (w *writer) list(f *fieldPlan, wire []byte, depth int) (empty, ok bool) {
	w.out = append(w.out, '[')
	empty = true
	for len(wire) > 0 {
		tag, n := varint(wire)
		wire = wire[n:]
		if tag == f.tag && f.message == nil && f.packable() {
			// One value.
			if w.full() {
				return false, false
			}
			if !empty {
				w.out = append(w.out, ',')
			}
			empty = false
			n, _, ok := w.scalar(f, wire)
			if !ok {
				return false, false
			}
			wire = wire[n:]
			continue
		}
		size, n := varint(wire)
		content := wire[n : n+int(size)]
		wire = wire[n+int(size):]
		if tag == f.tag {
			if w.full() {
				return false, false
			}
			if !empty {
				w.out = append(w.out, ',')
			}
			empty = false
			if f.message != nil {
				ok = w.nested(f.message, content, depth)
			} else {
				_, _, ok = w.scalar(f, content)
			}
			if !ok {
				return false, false
			}
			continue
		}
		// A packed run.
		for len(content) > 0 {
			if w.full() {
				return false, false
			}
			if !empty {
				w.out = append(w.out, ',')
			}
			empty = false
			n, _, ok := w.scalar(f, content)
			if !ok {
				return false, false
			}
			content = content[n:]
		}
	}
	w.out = append(w.out, ']')
	return empty, true
}

// mapEntry is one entry of a map. A key that is no string is in number, a
// signed one with the sign bit flipped, so that the order is that of uint64.
type mapEntry struct {
	text   []byte
	number uint64
	value  []byte
	// hasValue: the value is on the wire.
	hasValue bool
}

// mapField writes the records of a map as an object, in the order of its keys.
func (w *writer) mapField(f *fieldPlan, wire []byte, depth int) bool {
	base := len(w.entries)
	for len(wire) > 0 {
		_, n := varint(wire)
		size, m := varint(wire[n:])
		wire = wire[n+m:]
		e, ok := scanEntry(f, wire[:size])
		if !ok {
			return false
		}
		w.entries = append(w.entries, e)
		wire = wire[size:]
	}
	entries := w.entries[base:]
	slices.SortFunc(entries, compareEntries)
	w.out = append(w.out, '{')
	for i := range entries {
		if i > 0 {
			if compareEntries(entries[i-1], entries[i]) == 0 {
				return false
			}
			w.out = append(w.out, ',')
		}
		if w.full() {
			return false
		}
		// Not held across the nested writes: they may move the entries.
		e := w.entries[base+i]
		if !w.mapKey(f.mapKey.kind, e) {
			return false
		}
		w.out = append(w.out, ':')
		ok := true
		switch {
		case f.mapValue.message != nil:
			ok = w.nested(f.mapValue.message, e.value, depth)
		case e.hasValue:
			_, _, ok = w.scalar(f.mapValue, e.value)
		default:
			w.unsetScalar(f.mapValue)
		}
		if !ok {
			return false
		}
	}
	clear(w.entries[base:])
	w.entries = w.entries[:base]
	w.out = append(w.out, '}')
	return true
}

func compareEntries(a, b mapEntry) int {
	if c := cmp.Compare(a.number, b.number); c != 0 {
		return c
	}
	return bytes.Compare(a.text, b.text)
}

// scanEntry reads one entry of a map.
func scanEntry(f *fieldPlan, wire []byte) (e mapEntry, ok bool) {
	if signed(f.mapKey.kind) {
		e.number = signFlip
	}
	hasKey := false
	for pos := 0; pos < len(wire); {
		tag, n := varint(wire[pos:])
		if n <= 0 {
			return e, false
		}
		start, end := valueSpan(wire, pos+n, protowireType(tag))
		switch {
		case end < 0:
			return e, false
		case tag == f.mapKey.tag && !hasKey:
			hasKey = true
			if f.mapKey.kind == protoreflect.StringKind {
				e.text = wire[start:end]
			} else {
				e.number = keyNumber(f.mapKey.kind, wire[start:end])
			}
		case tag == f.mapValue.tag && !e.hasValue:
			e.hasValue, e.value = true, wire[start:end]
		default:
			return e, false
		}
		pos = end
	}
	return e, true
}

const signFlip = 1 << 63

func signed(k protoreflect.Kind) bool {
	switch k {
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Sint32Kind, protoreflect.Sint64Kind,
		protoreflect.Sfixed32Kind, protoreflect.Sfixed64Kind:
		return true
	default:
		return false
	}
}

// keyNumber is a key's place in the order of the map.
func keyNumber(k protoreflect.Kind, value []byte) uint64 {
	switch {
	case k == protoreflect.BoolKind:
		if v, _ := varint(value); v != 0 {
			return 1
		}
		return 0
	case signed(k):
		v, _ := signedValue(k, value)
		return uint64(v) ^ signFlip
	default:
		v, _ := unsignedValue(k, value)
		return v
	}
}

// mapKey writes a key, as a string whatever its kind.
func (w *writer) mapKey(k protoreflect.Kind, e mapEntry) (ok bool) {
	switch {
	case k == protoreflect.StringKind:
		w.out, ok = appendString(w.out, e.text)
		return ok
	case k == protoreflect.BoolKind:
		w.out = append(w.out, '"')
		w.out = strconv.AppendBool(w.out, e.number == 1)
	case signed(k):
		w.out = append(w.out, '"')
		w.out = strconv.AppendInt(w.out, int64(e.number^signFlip), 10)
	default:
		w.out = append(w.out, '"')
		w.out = strconv.AppendUint(w.out, e.number, 10)
	}
	w.out = append(w.out, '"')
	return true
}

// nested writes a message. depth is that of the message it is in.
func (w *writer) nested(mp *messagePlan, wire []byte, depth int) bool {
	switch {
	case mp.special == isTimestamp:
		return w.timestamp(wire)
	case mp.special == isDuration:
		return w.duration(wire)
	case mp.special == isWrapper:
		return w.wrapper(mp, wire)
	case mp.isPlain():
		return w.message(mp, wire, depth+1)
	default:
		return w.foreign(mp, wire)
	}
}

// foreign lets the slow engine write one message inside another.
func (w *writer) foreign(mp *messagePlan, wire []byte) bool {
	out, err := guard(w.out, func() ([]byte, error) {
		msg := dynamicpb.NewMessage(mp.desc)
		if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: w.engine.types}).Unmarshal(wire, msg); err != nil {
			return nil, err
		}
		return w.engine.appendJSON(w.out, msg, w.limit-len(w.out))
	})
	w.tooLarge = errors.Is(err, ErrResponseTooLarge)
	if err != nil {
		return false
	}
	w.out = compact(out, len(w.out))
	return true
}
