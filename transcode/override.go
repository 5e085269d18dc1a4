package transcode

import "google.golang.org/protobuf/encoding/protowire"

// override takes out of the body's message, dst from start on, what path
// variables replace but would not by merging, and refuses a body that sets
// another member of a variable's oneof.
func (m *Method) override(dst []byte, start int) ([]byte, error) {
	for _, v := range m.overrides {
		wire := dst[start:]
		found, clash := find(m.input, wire, v.steps)
		if clash != nil {
			return dst, newError(v.path, "the body sets another member of oneof "+oneofName(clash))
		}
		if found {
			dst = dst[:start+len(cut(wire, v.steps))]
		}
	}
	return dst, nil
}

// wireField is one field of a message on the wire: from start to end, its value
// from value to valueEnd, without length or the tag that ends a group.
type wireField struct {
	num                         protowire.Number
	start, value, valueEnd, end int
}

// nextField reads the record that begins at pos of wire that the reader wrote.
func nextField(wire []byte, pos int) wireField {
	num, t, n := protowire.ConsumeTag(wire[pos:])
	rec := wireField{num: num, start: pos, value: pos + n}
	size := protowire.ConsumeFieldValue(num, t, wire[rec.value:])
	rec.end = rec.value + size
	rec.valueEnd = rec.end
	switch t {
	case protowire.BytesType:
		content, _ := protowire.ConsumeBytes(wire[rec.value:])
		rec.value = rec.end - len(content)
	case protowire.StartGroupType:
		content, _ := protowire.ConsumeGroup(num, wire[rec.value:])
		rec.valueEnd = rec.value + len(content)
	}
	return rec
}

// find tells whether a message of the type has the field at the end of a path. clash is a
// field on the path whose oneof has another member set.
func find(mp *messagePlan, wire []byte, path []*fieldPlan) (found bool, clash *fieldPlan) {
	f := path[0]
	for pos := 0; pos < len(wire); {
		rec := nextField(wire, pos)
		pos = rec.end
		switch {
		case rec.num == f.num && len(path) == 1:
			found = true
		case rec.num == f.num:
			inside, clash := find(f.message, wire[rec.value:rec.valueEnd], path[1:])
			if clash != nil {
				return false, clash
			}
			found = found || inside
		case f.oneof >= 0 && mp.isMember(rec.num, f.oneof):
			return false, f
		}
	}
	return found, nil
}

// isMember tells whether the field with the number is a member of the oneof.
func (mp *messagePlan) isMember(num protowire.Number, oneof int) bool {
	f := mp.number(num)
	return f != nil && f.oneof == oneof
}

// cut takes the field at the end of a path out of a message, in place.
func cut(wire []byte, path []*fieldPlan) []byte {
	f := path[0]
	out := wire[:0]
	for pos := 0; pos < len(wire); {
		rec := nextField(wire, pos)
		pos = rec.end
		switch {
		case rec.num != f.num:
			out = append(out, wire[rec.start:rec.end]...)
		case len(path) > 1:
			// What is written is never longer than what was read before.
			content := cut(wire[rec.value:rec.valueEnd], path[1:])
			out = protowire.AppendVarint(out, f.tag)
			if rec.valueEnd == rec.end {
				out = protowire.AppendVarint(out, uint64(len(content)))
			}
			out = append(out, content...)
			if rec.valueEnd != rec.end {
				out = protowire.AppendTag(out, f.num, protowire.EndGroupType)
			}
		}
	}
	return out
}
