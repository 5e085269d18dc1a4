package transcode

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// slot says where the records of a field are: the first and the last of them,
// counted from 1 in the writer's records. Zero: the field is not set.
type slot struct{ first, last int }

// maxSlots bounds the slots of the messages that are open. There may be ten
// thousand, which may have thousands of fields each, in some bytes each.
const maxSlots = 1 << 21

// record is where a record lies in its message: of a singular field its value,
// without its length; of a list or map those that come at once, with their tags.
type record struct {
	start, end int
	// next is the field's next record, as in slot; 0: it is the last.
	next int
}

// extension is an extension that a message holds.
type extension struct {
	field *fieldPlan
	slot
}

// membersByRecords writes fields that come in any order: all are looked for
// before the first is written.
func (w *writer) membersByRecords(mp *messagePlan, wire []byte, depth int) bool {
	slots, records, extensions := len(w.slots), len(w.records), len(w.extensions)
	if !w.scan(mp, wire, depth) {
		return false
	}
	for i, f := range mp.fields {
		s := w.slots[slots+i]
		if s.first == 0 {
			if w.engine.emitDefaults {
				w.zeroMembers(mp.fields[i : i+1])
			}
			continue
		}
		mark := len(w.out)
		w.memberName(f)
		unset, ok := w.slot(f, s, wire, depth)
		if !ok {
			return false
		}
		if unset && !w.engine.emitDefaults {
			w.out = w.out[:mark]
		}
	}
	if len(w.extensions) > extensions && !w.extensionMembers(extensions, wire, depth) {
		return false
	}
	w.slots, w.records = w.slots[:slots], w.records[:records]
	w.drop(len(w.entries), extensions)
	return true
}

// extensionMembers writes the extensions from base on in the order of their names.
func (w *writer) extensionMembers(base int, wire []byte, depth int) bool {
	slices.SortFunc(w.extensions[base:], func(a, b extension) int {
		return cmp.Compare(a.field.desc.FullName(), b.field.desc.FullName())
	})
	for i := base; i < len(w.extensions); i++ {
		x := w.extensions[i]
		mark := len(w.out)
		w.memberName(x.field)
		empty, ok := w.slot(x.field, x.slot, wire, depth)
		if !ok {
			return false
		}
		if empty && x.field.list {
			w.out = w.out[:mark]
		}
	}
	return true
}

// scan finds the records of a message. It pushes a slot for each field of the
// plan, then one for each oneof, whose first is that of the member that is set
// (its index, from 1), and the extensions.
func (w *writer) scan(mp *messagePlan, wire []byte, depth int) bool {
	base, extensions := len(w.slots), len(w.extensions)
	if base+len(mp.fields)+mp.oneofs > maxSlots {
		return w.fail(errTooDeep)
	}
	w.slots = slices.Grow(w.slots, len(mp.fields)+mp.oneofs)
	w.slots = w.slots[:base+len(mp.fields)+mp.oneofs]
	slots := w.slots[base:]
	clear(slots)
	for pos := 0; pos < len(wire); {
		rec := w.found(mp, wire, pos)
		if rec.next < 0 {
			return false
		}
		at := pos
		pos = rec.next
		f, start, end := rec.field, rec.start, rec.end
		if f == nil {
			continue
		}
		var s *slot
		if f.index >= 0 {
			s = &slots[f.index]
		} else {
			s = w.extensionSlot(extensions, f)
		}
		if f.oneof >= 0 {
			set := &slots[len(mp.fields)+f.oneof].first
			if other := *set - 1; other >= 0 && other != f.index {
				if !w.checkSlot(mp.fields[other], slots[other], wire, depth) {
					return false
				}
				slots[other] = slot{}
			}
			*set = f.index + 1
		}
		if f.list || f.isMap {
			start, end = at, pos
			if s.last > 0 && w.records[s.last-1].end == at {
				w.records[s.last-1].end = end
				continue
			}
		}
		w.records = append(w.records, record{start: start, end: end})
		if s.last > 0 {
			w.records[s.last-1].next = len(w.records)
		} else {
			s.first = len(w.records)
		}
		s.last = len(w.records)
	}
	return true
}

// finding is a record of a message: its tag, the field it is of, or nil when
// it is unknown, where its value is, as valueSpan has it, and the next record.
type finding struct {
	tag              uint64
	field            *fieldPlan
	start, end, next int
}

// found reads the record at pos. Its next is negative where it is malformed.
func (w *writer) found(mp *messagePlan, wire []byte, pos int) (rec finding) {
	tag, n := varint(wire[pos:])
	num := protowire.Number(tag >> 3)
	if n <= 0 || tag>>3 > uint64(protowire.MaxValidNumber) || num < protowire.MinValidNumber {
		w.fail(errMalformed)
		return finding{next: -1}
	}
	pos += n
	f := mp.number(num)
	if f == nil && mp.extendable {
		var err error
		if f, err = w.engine.lookup.extension(mp, num); err != nil {
			w.fail(err)
			return finding{next: -1}
		}
	}
	if f == nil || !f.takes(tag) {
		size := protowire.ConsumeFieldValue(num, protowireType(tag), wire[pos:])
		if size < 0 {
			w.fail(errMalformed)
			return finding{next: -1}
		}
		return finding{tag: tag, next: pos + size}
	}
	start, end, next := valueSpan(f, wire, pos, protowireType(tag))
	if next < 0 {
		w.fail(errMalformed)
	}
	return finding{tag, f, start, end, next}
}

// extensionSlot finds the slot of an extension among those from base on, or adds one.
func (w *writer) extensionSlot(base int, f *fieldPlan) *slot {
	for i := len(w.extensions) - 1; i >= base; i-- {
		if w.extensions[i].field == f {
			return &w.extensions[i].slot
		}
	}
	w.extensions = append(w.extensions, extension{field: f})
	return &w.extensions[len(w.extensions)-1].slot
}

// slot writes the value of a field. unset: it is on the wire, but with what
// counts as unset.
func (w *writer) slot(f *fieldPlan, s slot, wire []byte, depth int) (unset, ok bool) {
	switch {
	case f.list:
		w.out = append(w.out, '[')
		for i := s.first; i > 0; i = w.records[i-1].next {
			r := w.records[i-1]
			if _, ok := w.elements(f, wire[r.start:r.end], depth); !ok {
				return false, false
			}
		}
		unset = w.out[len(w.out)-1] == '['
		w.out = append(w.out, ']')
		return unset, true
	case f.isMap:
		entries := w.newEntries()
		for i := s.first; i > 0; i = w.records[i-1].next {
			r := w.records[i-1]
			if _, ok := w.collect(f, &entries, wire[r.start:r.end], depth); !ok {
				return false, false
			}
		}
		return false, w.writeEntries(f, entries, depth)
	case f.message != nil:
		content, ok := w.content(f, s, wire, depth)
		switch {
		case !ok:
			return false, false
		case protowireType(f.tag) == protowire.StartGroupType:
			return false, w.group(f, content, depth)
		default:
			return false, w.value(f.message, content, depth+1)
		}
	default:
		if s.first != s.last && !w.checkReplaced(f, s, wire) {
			return false, false
		}
		r := w.records[s.last-1]
		_, zero, ok := w.scalar(f, wire[r.start:r.end])
		return zero && !f.presence, ok
	}
}

// content is that of a singular message. Where it comes in pieces, they are
// merged, each of which must be valid by itself.
func (w *writer) content(f *fieldPlan, s slot, wire []byte, depth int) ([]byte, bool) {
	r := w.records[s.first-1]
	if s.first == s.last {
		return wire[r.start:r.end], true
	}
	size := 0
	for i := s.first; i > 0; i = w.records[i-1].next {
		size += w.records[i-1].end - w.records[i-1].start
	}
	if w.merged += size; w.merged > maxMerged {
		return nil, w.fail(errMerged)
	}
	if !w.checkSlot(f, s, wire, depth) {
		return nil, false
	}
	merged := make([]byte, 0, size)
	for i := s.first; i > 0; i = w.records[i-1].next {
		merged = append(merged, wire[w.records[i-1].start:w.records[i-1].end]...)
	}
	return merged, true
}

// valueSpan is where the value at pos lies, without its length or its end of
// group, and where the next record begins; negative: it is malformed.
func valueSpan(f *fieldPlan, wire []byte, pos int, t protowire.Type) (start, end, next int) {
	switch t {
	case protowire.VarintType:
		_, n := varint(wire[pos:])
		if n <= 0 {
			return 0, 0, -1
		}
		return pos, pos + n, pos + n
	case protowire.Fixed32Type:
		if len(wire)-pos < 4 {
			return 0, 0, -1
		}
		return pos, pos + 4, pos + 4
	case protowire.Fixed64Type:
		if len(wire)-pos < 8 {
			return 0, 0, -1
		}
		return pos, pos + 8, pos + 8
	case protowire.BytesType:
		size, n := varint(wire[pos:])
		if n <= 0 || size > uint64(len(wire)-pos-n) {
			return 0, 0, -1
		}
		start = pos + n
		return start, start + int(size), start + int(size)
	case protowire.StartGroupType:
		content, n := protowire.ConsumeGroup(f.num, wire[pos:])
		if n < 0 {
			return 0, 0, -1
		}
		return pos, pos + len(content), pos + n
	default:
		return 0, 0, -1
	}
}
