package transcode

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// content reads a message of any type and appends its content, without
// length. depth is that of the message, 1 for the outermost.
func (r *reader) content(mp *messagePlan, depth int) bool {
	if depth > maxDepth {
		return r.fail(r.pos, tooDeep)
	}
	switch mp.special {
	case ordinary:
		return r.message(mp, depth, -1)
	case isTimestamp:
		return r.timestamp()
	case isDuration:
		return r.duration()
	case isWrapper:
		return r.field(mp.fields[0], depth)
	case isStruct:
		return r.entries(mp.fields[0], depth)
	case isListValue:
		return r.list(mp.fields[0], depth)
	case isValue:
		return r.anyJSON(mp, depth)
	case isFieldMask:
		return r.fieldMask(mp.fields[0])
	case isEmpty:
		return r.nothing(depth)
	case isAny:
		return r.any(depth)
	default:
		return r.fail(r.pos, "a type without a JSON form")
	}
}

// message reads an object and appends the fields of an ordinary message.
// typeAt is where the object, as an Any's, has the name "@type"; -1: it is
// none.
func (r *reader) message(mp *messagePlan, depth, typeAt int) bool {
	if !r.open('{') {
		return false
	}
	if mp.messageSet {
		return r.fail(r.pos, "a message set has no JSON form")
	}
	if r.empty('}') {
		return true
	}
	base, extensions := len(r.seen), len(r.extensions)
	for range mp.words {
		r.seen = append(r.seen, 0)
	}
	ok := r.members(mp, depth, typeAt, base, extensions)
	r.seen, r.extensions = r.seen[:base], r.extensions[:extensions]
	return ok
}

// members reads the members of an object, and the bracket after them.
func (r *reader) members(mp *messagePlan, depth, typeAt, base, extensions int) bool {
	next := 0
	for {
		at := r.pos
		name, ok := r.name()
		if !ok {
			return false
		}
		f := mp.named(name, next)
		switch {
		case typeAt >= 0 && string(name) == typeName:
			// Read before.
			ok = r.againType(at, typeAt) && r.skipString()
		case f != nil:
			next = f.index + 1
			ok = r.once(f, base, at) && r.oneof(mp, f, base, at) && r.member(f, depth)
		case len(name) > 1 && name[0] == '[' && name[len(name)-1] == ']':
			ok = r.extension(mp, name[1:len(name)-1], at, depth, extensions)
		default:
			ok = r.unknown(at, depth)
		}
		if !ok {
			return false
		}
		if more, ok := r.more('}'); !more {
			return ok
		}
	}
}

// named finds a field by its name in JSON. Callers tend to write fields in
// order, so the one at index next is tried first.
func (mp *messagePlan) named(name []byte, next int) *fieldPlan {
	if next < len(mp.fields) {
		if f := mp.fields[next]; !f.unnamed && string(name) == f.jsonName {
			return f
		}
	}
	return mp.byJSON[string(name)]
}

// once notes that a message has a field, whose name is at, and refuses it when it comes again.
func (r *reader) once(f *fieldPlan, base, at int) bool {
	word, bit := &r.seen[base+f.index/64], uint64(1)<<(f.index%64)
	if *word&bit != 0 {
		return r.fail(at, moreThanOnce)
	}
	*word |= bit
	return true
}

// oneof notes that a message has a member of a oneof, unless it is null, and
// refuses a second one.
func (r *reader) oneof(mp *messagePlan, f *fieldPlan, base, at int) bool {
	if f.oneof < 0 || r.next() == 'n' && !f.takesNull() {
		return true
	}
	i := len(mp.fields) + f.oneof
	word, bit := &r.seen[base+i/64], uint64(1)<<(i%64)
	if *word&bit != 0 {
		return r.fail(at, "another member of oneof "+oneofName(f)+" is set already")
	}
	*word |= bit
	return true
}

// extension reads the value of an extension that has the name, which is at.
func (r *reader) extension(mp *messagePlan, name []byte, at, depth, base int) bool {
	f, err := r.engine.lookup.extensionByName(mp, name)
	switch {
	case err != nil:
		return r.fail(at, "not an extension of this message")
	case f == nil:
		return r.unknown(at, depth)
	}
	for _, n := range r.extensions[base:] {
		if n == f.num {
			return r.fail(at, moreThanOnce)
		}
	}
	r.extensions = append(r.extensions, f.num)
	return r.member(f, depth)
}

// unknown reads over the value of a member, whose name is at, that the message
// at depth does not know.
func (r *reader) unknown(at, depth int) bool {
	if !r.engine.discardUnknown {
		return r.fail(at, "no such field")
	}
	return r.skip(maxDepth - depth)
}

// member reads the value of an object's field. null leaves it unset.
func (r *reader) member(f *fieldPlan, depth int) bool {
	if r.next() == 'n' && !f.takesNull() {
		return r.null()
	}
	return r.field(f, depth)
}

// takesNull tells whether null is a value of the field's type:
// google.protobuf.Value or NullValue. protojson asks for the type alone, so
// for a list of them null is not "unset" but refused.
func (f *fieldPlan) takesNull() bool {
	return (f.message != nil && f.message.special == isValue) || (f.enum != nil && f.enum.isNull)
}

// field reads and appends a field of a message at depth.
func (r *reader) field(f *fieldPlan, depth int) bool {
	switch {
	case f.list:
		return r.list(f, depth)
	case f.isMap:
		return r.entries(f, depth)
	}
	mark := len(r.out)
	r.out = appendTag(r.out, f.tag)
	value := len(r.out)
	if !r.value(f, depth) {
		return false
	}
	if r.skipped {
		r.skipped = false
		r.out = r.out[:mark]
	} else if !f.presence && isZero(r.out[value:]) {
		r.out = r.out[:mark]
	}
	return true
}

// appendTag is AppendVarint, for the tags of one byte that most are.
func appendTag(dst []byte, tag uint64) []byte {
	if tag < 1<<7 {
		return append(dst, byte(tag))
	}
	return protowire.AppendVarint(dst, tag)
}

// isZero tells whether a scalar's encoded value is the zero value: a varint or
// a length of 0, or only zero bytes.
func isZero(value []byte) bool {
	for _, b := range value {
		if b != 0 {
			return false
		}
	}
	return true
}

// list reads an array and appends a repeated field.
func (r *reader) list(f *fieldPlan, depth int) bool {
	if !r.open('[') {
		return false
	}
	if r.empty(']') {
		return true
	}
	start := len(r.out)
	if f.packedTag != 0 {
		r.out = append(appendTag(r.out, f.packedTag), 0)
	}
	content := len(r.out)
	for {
		mark := len(r.out)
		if f.packedTag == 0 {
			r.out = appendTag(r.out, f.tag)
		}
		if !r.value(f, depth) {
			return false
		}
		if r.skipped {
			r.skipped = false
			r.out = r.out[:mark]
		}
		more, ok := r.more(']')
		if more {
			continue
		}
		switch {
		case f.packedTag == 0:
		case len(r.out) == content:
			r.out = r.out[:start]
		default:
			r.out = closeLength(r.out, content-1)
		}
		return ok
	}
}

// nested reads and appends a message's value, length and content. depth is
// that of the message it is in.
func (r *reader) nested(mp *messagePlan, depth int) bool {
	o := r.begin()
	if !r.content(mp, depth+1) {
		return false
	}
	r.close(o)
	return true
}
