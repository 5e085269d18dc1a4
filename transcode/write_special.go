package transcode

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The well-known types: here, what reads their fields, wrappers, FieldMask and
// Any. Their fields may come in any order and more than once, like those of any
// message, and unknown ones beside them.

// skip gives the size of the value of an unknown field after its tag; negative: it is malformed.
func (w *writer) skip(tag uint64, wire []byte) int {
	num := protowire.Number(tag >> 3)
	if tag>>3 > uint64(protowire.MaxValidNumber) || num < protowire.MinValidNumber {
		w.fail(errMalformed)
		return -1
	}
	n := protowire.ConsumeFieldValue(num, protowireType(tag), wire)
	if n < 0 {
		w.fail(errMalformed)
	}
	return n
}

// next reads the tag of a record and, if it is of one of the fields, its
// value. f is nil where it was of neither.
func (w *writer) next(wire []byte, a, b *fieldPlan) (f *fieldPlan, value []byte, n int) {
	tag, n := varint(wire)
	if n <= 0 {
		w.fail(errMalformed)
		return nil, nil, -1
	}
	switch tag {
	case a.tag:
		f = a
	case b.tag:
		f = b
	default:
		size := w.skip(tag, wire[n:])
		if size < 0 {
			return nil, nil, -1
		}
		return nil, nil, n + size
	}
	start, end, n := valueSpan(f, wire, n, protowireType(tag))
	if n < 0 {
		w.fail(errMalformed)
		return nil, nil, -1
	}
	return f, wire[start:end], n
}

// wrapper writes a google.protobuf wrapper as the value in it.
func (w *writer) wrapper(mp *messagePlan, wire []byte) bool {
	f := mp.fields[0]
	last := f.unset
	for len(wire) > 0 {
		found, value, n := w.next(wire, f, f)
		if n < 0 {
			return false
		}
		if found != nil {
			if !w.checkValue(f, last, 0) {
				return false
			}
			last = value
		}
		wire = wire[n:]
	}
	_, _, ok := w.scalar(f, last)
	return ok
}

// fieldMask writes a google.protobuf.FieldMask: its paths in lowerCamelCase,
// parted by commas. A path that would not come back as it was is refused.
func (w *writer) fieldMask(mp *messagePlan, wire []byte) bool {
	f := mp.fields[0]
	w.out = append(w.out, '"')
	first := true
	for len(wire) > 0 {
		found, path, n := w.next(wire, f, f)
		if n < 0 || w.full() {
			return false
		}
		wire = wire[n:]
		if found == nil {
			continue
		}
		if !first {
			w.out = append(w.out, ',')
		}
		first = false
		if !protoreflect.FullName(path).IsValid() {
			return w.fail(errFieldMask)
		}
		for i := 0; i < len(path); i++ {
			c := path[i]
			if c == '_' {
				if i++; i == len(path) || path[i] < 'a' || path[i] > 'z' {
					return w.fail(errFieldMask)
				}
				c = path[i] - 'a' + 'A'
			} else if 'A' <= c && c <= 'Z' {
				return w.fail(errFieldMask)
			}
			w.out = append(w.out, c)
		}
	}
	w.out = append(w.out, '"')
	return true
}

// any writes a google.protobuf.Any: the message in it as an object that names
// its type, too, or with its value apart if it has a JSON form of its own.
func (w *writer) any(mp *messagePlan, wire []byte, depth int) bool {
	typeField, valueField := mp.fields[0], mp.fields[1]
	var url, content []byte
	for len(wire) > 0 {
		f, value, n := w.next(wire, typeField, valueField)
		if n < 0 {
			return false
		}
		switch f {
		case nil:
		case typeField:
			if !w.checkValue(f, url, 0) {
				return false
			}
			url = value
		default:
			content = value
		}
		wire = wire[n:]
	}
	if len(url) == 0 {
		if len(content) > 0 {
			return w.fail(errAnyType)
		}
		w.out = append(w.out, "{}"...)
		return true
	}
	inside, err := w.engine.lookup.messageByURL(url)
	if err != nil {
		return w.fail(err)
	}
	w.out = append(w.out, `{"@type":`...)
	if !w.text(typeField, url) {
		return false
	}
	if inside.special == ordinary || inside.special == isEmpty {
		if !w.members(inside, content, depth+1) {
			return false
		}
	} else {
		w.out = append(w.out, `,"value":`...)
		if !w.value(inside, content, depth+1) {
			return false
		}
	}
	w.out = append(w.out, '}')
	return true
}
