package transcode

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// mapEntry is one entry of a map. A key that is no string is in number, a
// signed one with the sign bit flipped, so that the order is that of uint64.
type mapEntry struct {
	text   []byte
	number uint64
	value  []byte
	// hasValue: the value is on the wire.
	hasValue bool
	// merged: the value is of several messages, each of which was checked.
	merged bool
	// at is the entry's place among the others: of one key, the last counts.
	at int
}

// mapEntries are the entries of one map: those from base on, of the seen that
// came. When there are limit, what later ones replace is dropped: on the wire an
// entry may be two bytes long.
type mapEntries struct{ base, limit, seen int }

// newEntries begins a map.
func (w *writer) newEntries() mapEntries {
	const many = 1 << 12
	return mapEntries{base: len(w.entries), limit: many}
}

// collect pushes the entries of a map that come at once, from the tag of the
// first on, and tells their size on the wire.
func (w *writer) collect(f *fieldPlan, entries *mapEntries, wire []byte, depth int) (pos int, ok bool) {
	for pos < len(wire) {
		tag, n := varint(wire[pos:])
		if n <= 0 || tag != f.tag {
			return pos, true
		}
		size, m := varint(wire[pos+n:])
		pos += n + m
		if m <= 0 || size > uint64(len(wire)-pos) {
			return 0, w.fail(errMalformed)
		}
		e, ok := w.entry(f, wire[pos:pos+int(size)], depth)
		if !ok {
			return 0, false
		}
		e.at = entries.seen
		entries.seen++
		w.entries = append(w.entries, e)
		if len(w.entries)-entries.base == entries.limit {
			if !w.sortEntries(f, entries.base, depth) {
				return 0, false
			}
			entries.limit = max(entries.limit, 2*(len(w.entries)-entries.base))
		}
		pos += int(size)
	}
	return pos, true
}

// entry reads one entry. Of a key or value that comes twice, the last counts;
// messages are merged.
func (w *writer) entry(f *fieldPlan, wire []byte, depth int) (e mapEntry, ok bool) {
	if signed(f.mapKey.kind) {
		e.number = signFlip
	}
	for pos := 0; pos < len(wire); {
		tag, n := varint(wire[pos:])
		num := protowire.Number(tag >> 3)
		if n <= 0 || tag>>3 > uint64(protowire.MaxValidNumber) || num < protowire.MinValidNumber {
			return e, w.fail(errMalformed)
		}
		pos += n
		if tag != f.mapKey.tag && tag != f.mapValue.tag {
			size := protowire.ConsumeFieldValue(num, protowireType(tag), wire[pos:])
			if size < 0 {
				return e, w.fail(errMalformed)
			}
			pos += size
			continue
		}
		part := f.mapKey
		if tag != part.tag {
			part = f.mapValue
		}
		start, end, next := valueSpan(part, wire, pos, protowireType(tag))
		if next < 0 {
			return e, w.fail(errMalformed)
		}
		pos = next
		value := wire[start:end]
		switch {
		case part == f.mapValue:
			if !w.entryValue(f.mapValue, &e, value, depth) {
				return e, false
			}
		case part.kind == protoreflect.StringKind:
			if !w.checkValue(part, e.text, depth) {
				return e, false
			}
			e.text = value
		default:
			e.number = keyNumber(part.kind, value)
		}
	}
	return e, true
}

// entryValue takes up the value of an entry, which may have one already.
func (w *writer) entryValue(f *fieldPlan, e *mapEntry, value []byte, depth int) bool {
	switch {
	case !e.hasValue:
		e.hasValue, e.value = true, value[:len(value):len(value)]
		return true
	case f.message == nil:
		ok := w.checkValue(f, e.value, depth)
		e.value = value
		return ok
	}
	// Each is checked once: what is put together grows with each, and has others like it inside.
	w.merged += len(value)
	if !e.merged {
		e.merged = true
		w.merged += len(e.value)
		if !w.checkValue(f, e.value, depth) {
			return false
		}
	}
	if w.merged > maxMerged {
		return w.fail(errMerged)
	}
	e.value = append(e.value, value...)
	return w.checkValue(f, value, depth)
}

// checkEntryValue checks the value of an entry that is not shown.
func (w *writer) checkEntryValue(f *fieldPlan, e mapEntry, depth int) bool {
	return e.merged || w.checkValue(f, e.value, depth)
}

// sortEntries brings the entries from base on in the order of their keys, and
// drops those that a later one replaces.
func (w *writer) sortEntries(f *fieldPlan, base, depth int) bool {
	slices.SortFunc(w.entries[base:], compareEntries)
	kept := base
	for i := base; i < len(w.entries); i++ {
		e := w.entries[i]
		if i+1 < len(w.entries) && compareKeys(e, w.entries[i+1]) == 0 {
			if !w.checkEntryValue(f.mapValue, e, depth) {
				return false
			}
			continue
		}
		if kept < i {
			w.entries[kept] = e
		}
		kept++
	}
	w.drop(kept, len(w.extensions))
	return true
}

// writeEntries writes a map as an object, in the order of its keys.
func (w *writer) writeEntries(f *fieldPlan, m mapEntries, depth int) bool {
	if !w.sortEntries(f, m.base, depth) {
		return false
	}
	w.out = append(w.out, '{')
	for i := m.base; i < len(w.entries); i++ {
		if w.full() {
			return false
		}
		// Not held across the nested writes: they may move the entries.
		e := w.entries[i]
		if w.out[len(w.out)-1] != '{' {
			w.out = append(w.out, ',')
		}
		if !w.mapKey(f.mapKey, e) {
			return false
		}
		w.out = append(w.out, ':')
		var ok bool
		switch {
		case f.mapValue.message != nil:
			ok = w.value(f.mapValue.message, e.value, depth+1)
		case e.hasValue:
			_, _, ok = w.scalar(f.mapValue, e.value)
		default:
			ok = w.defaultValue(f.mapValue)
		}
		if !ok {
			return false
		}
	}
	w.drop(m.base, len(w.extensions))
	w.out = append(w.out, '}')
	return true
}

func compareKeys(a, b mapEntry) int {
	if c := cmp.Compare(a.number, b.number); c != 0 {
		return c
	}
	return bytes.Compare(a.text, b.text)
}

func compareEntries(a, b mapEntry) int {
	if c := compareKeys(a, b); c != 0 {
		return c
	}
	return cmp.Compare(a.at, b.at)
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
func (w *writer) mapKey(f *fieldPlan, e mapEntry) bool {
	switch {
	case f.kind == protoreflect.StringKind:
		return w.text(f, e.text)
	case f.kind == protoreflect.BoolKind:
		w.out = append(w.out, '"')
		w.out = strconv.AppendBool(w.out, e.number == 1)
	case signed(f.kind):
		w.out = append(w.out, '"')
		w.out = strconv.AppendInt(w.out, int64(e.number^signFlip), 10)
	default:
		w.out = append(w.out, '"')
		w.out = strconv.AppendUint(w.out, e.number, 10)
	}
	w.out = append(w.out, '"')
	return true
}

// checkEntry checks an entry that is not shown.
func (w *writer) checkEntry(f *fieldPlan, wire []byte, depth int) bool {
	e, ok := w.entry(f, wire, depth)
	if !ok {
		return false
	}
	if f.mapKey.utf8 && !utf8.Valid(e.text) {
		return w.failIn(f, errNotUTF8)
	}
	return w.checkEntryValue(f.mapValue, e, depth)
}
