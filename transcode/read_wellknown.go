package transcode

import (
	"bytes"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// anyJSON reads any JSON and appends the content of a google.protobuf.Value.
func (r *reader) anyJSON(mp *messagePlan, depth int) bool {
	const nullTag, numberTag, stringTag, boolTag, structTag, listTag = 1 << 3, 2<<3 | 1, 3<<3 | 2, 4 << 3, 5<<3 | 2, 6<<3 | 2
	switch c := r.next(); {
	case c == '"':
		r.out = append(r.out, stringTag)
		return r.str()
	case c == '{':
		return r.structValue(structTag, mp.number(structTag>>3).message, depth)
	case c == '[':
		return r.structValue(listTag, mp.number(listTag>>3).message, depth)
	case c == '-' || c >= '0' && c <= '9':
		v, ok := r.float(protoreflect.DoubleKind)
		r.out = protowire.AppendFixed64(append(r.out, numberTag), math.Float64bits(v))
		return ok
	case r.literal("null"):
		r.out = append(r.out, nullTag, 0)
		return true
	case r.literal("true"):
		r.out = append(r.out, boolTag, 1)
		return true
	case r.literal("false"):
		r.out = append(r.out, boolTag, 0)
		return true
	}
	return r.unexpected()
}

// nothing reads a google.protobuf.Empty, which has nothing to append.
func (r *reader) nothing(depth int) bool {
	if !r.open('{') {
		return false
	}
	if r.empty('}') {
		return true
	}
	for {
		at := r.pos
		if _, ok := r.name(); !ok || !r.unknown(at, depth) {
			return false
		}
		if more, ok := r.more('}'); !more {
			return ok
		}
	}
}

// fieldMask reads a google.protobuf.FieldMask and appends its paths.
func (r *reader) fieldMask(paths *fieldPlan) bool {
	at := r.pos
	text, ok := r.quoted()
	if !ok {
		return false
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return true
	}
	for more := true; more; {
		var path []byte
		path, text, more = bytes.Cut(text, []byte{','})
		r.out = append(appendTag(r.out, paths.tag), 0)
		mark := len(r.out) - 1
		begins := true // of an identifier
		for _, c := range path {
			switch {
			case c >= 'a' && c <= 'z', c >= '0' && c <= '9' && !begins:
			case c >= 'A' && c <= 'Z':
				r.out = append(r.out, '_')
				c += 'a' - 'A'
			case c == '.' && !begins:
				begins = true
				r.out = append(r.out, c)
				continue
			default:
				return r.invalid(at, "google.protobuf.FieldMask")
			}
			begins = false
			r.out = append(r.out, c)
		}
		if begins {
			return r.invalid(at, "google.protobuf.FieldMask")
		}
		r.out = closeLength(r.out, mark)
	}
	return true
}
