package transcode

import (
	"bytes"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// message reads an object and appends the fields of a plain message. depth is
// that of the message, 1 for the outermost.
func (r *reader) message(mp *messagePlan, depth int) bool {
	if depth > maxDepth || !r.eat('{') {
		return false
	}
	if r.next() == '}' {
		r.pos++
		return true
	}
	var seen [maxDirectFields / 64]uint64
	var oneofs uint64
	next := 0
	for {
		name, ok := r.plain()
		if !ok {
			return false
		}
		r.space()
		if !r.eat(':') {
			return false
		}
		f := mp.named(name, next)
		if f == nil {
			// A name in brackets is an extension's.
			if !r.engine.discardUnknown || (len(name) > 0 && name[0] == '[') || !r.skip(maxDepth-depth) {
				return false
			}
		} else {
			word, bit := f.index/64, uint64(1)<<(f.index%64)
			if seen[word]&bit != 0 {
				return false
			}
			seen[word] |= bit
			next = f.index + 1
			if !r.member(f, depth, &oneofs) {
				return false
			}
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
		if f := mp.fields[next]; string(name) == f.jsonName {
			return f
		}
	}
	return mp.byJSON[string(name)]
}

// member reads the value of an object's field. null leaves it unset.
func (r *reader) member(f *fieldPlan, depth int, oneofs *uint64) bool {
	if r.next() == 'n' && !f.takesNull() {
		return r.literal("null")
	}
	if f.oneof >= 0 {
		bit := uint64(1) << f.oneof
		if *oneofs&bit != 0 {
			return false
		}
		*oneofs |= bit
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
	r.out = protowire.AppendVarint(r.out, f.tag)
	value := len(r.out)
	if !r.value(f, depth) {
		return false
	}
	if !f.presence && isZero(r.out[value:]) {
		r.out = r.out[:mark]
	}
	return true
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
	if !r.eat('[') {
		return false
	}
	if r.next() == ']' {
		r.pos++
		return true
	}
	mark := 0
	if f.packedTag != 0 {
		r.out = append(protowire.AppendVarint(r.out, f.packedTag), 0)
		mark = len(r.out) - 1
	}
	for {
		if f.packedTag == 0 {
			r.out = protowire.AppendVarint(r.out, f.tag)
		}
		if !r.value(f, depth) {
			return false
		}
		if more, ok := r.more(']'); !more {
			if f.packedTag != 0 {
				r.out = closeLength(r.out, mark)
			}
			return ok
		}
	}
}

// entries reads an object and appends a map field.
func (r *reader) entries(f *fieldPlan, depth int) bool {
	if !r.eat('{') {
		return false
	}
	if r.next() == '}' {
		r.pos++
		return true
	}
	base := len(r.keys)
	for {
		r.out = append(protowire.AppendVarint(r.out, f.tag), 0)
		mark := len(r.out) - 1
		r.out = protowire.AppendVarint(r.out, f.mapKey.tag)
		key := len(r.out)
		if !r.mapKey(f.mapKey.kind) {
			return false
		}
		size := len(r.out) - key
		r.space()
		if !r.eat(':') {
			return false
		}
		r.out = protowire.AppendVarint(r.out, f.mapValue.tag)
		if !r.value(f.mapValue, depth) {
			return false
		}
		before := len(r.out)
		r.out = closeLength(r.out, mark)
		key += len(r.out) - before
		r.keys = append(r.keys, keySpan{key, key + size})
		if more, ok := r.more('}'); !more {
			ok = ok && r.distinct(r.keys[base:])
			r.keys = r.keys[:base]
			return ok
		}
	}
}

// distinct tells whether no key comes twice. A key has one encoding only.
func (r *reader) distinct(keys []keySpan) bool {
	const few = 12
	if len(keys) <= few {
		for i, k := range keys {
			for _, other := range keys[:i] {
				if bytes.Equal(r.out[k.start:k.end], r.out[other.start:other.end]) {
					return false
				}
			}
		}
		return true
	}
	seen := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		seen[string(r.out[k.start:k.end])] = struct{}{}
	}
	return len(seen) == len(keys)
}

// mapKey reads a name and appends it as a map key.
func (r *reader) mapKey(k protoreflect.Kind) bool {
	if k == protoreflect.StringKind {
		return r.str()
	}
	text, ok := r.plain()
	if !ok {
		return false
	}
	switch k {
	case protoreflect.BoolKind:
		switch string(text) {
		case "true":
			r.out = append(r.out, 1)
			return true
		case "false":
			r.out = append(r.out, 0)
			return true
		}
		return false
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		v, err := strconv.ParseUint(string(text), 10, bitSize(k))
		r.out = appendUint(r.out, k, v)
		return err == nil
	default:
		v, err := strconv.ParseInt(string(text), 10, bitSize(k))
		r.out = appendInt(r.out, k, v)
		return err == nil
	}
}

// nested reads and appends a message's value, length and content. depth is
// that of the message it is in.
func (r *reader) nested(mp *messagePlan, depth int) bool {
	mark := len(r.out)
	r.out = append(r.out, 0)
	ok := false
	switch {
	case mp.special == isTimestamp:
		ok = depth < maxDepth && r.timestamp()
	case mp.special == isDuration:
		ok = depth < maxDepth && r.duration()
	case mp.special == isWrapper:
		ok = depth < maxDepth && r.field(mp.fields[0], depth+1)
	case mp.isPlain():
		ok = r.message(mp, depth+1)
	default:
		ok = r.foreign(mp, depth+1)
	}
	if ok {
		r.out = closeLength(r.out, mark)
	}
	return ok
}

// foreign lets the slow engine read one value inside a message.
func (r *reader) foreign(mp *messagePlan, depth int) bool {
	start := r.pos
	if depth > maxDepth || !r.skip(maxDepth) {
		return false
	}
	msg := dynamicpb.NewMessage(mp.desc)
	if r.engine.readJSON(r.in[start:r.pos], maxDepth-depth+1, msg) != nil {
		return false
	}
	out, err := r.engine.marshalWire().MarshalAppend(r.out, msg)
	if err != nil {
		return false
	}
	r.out = out
	return true
}
