package transcode

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// value reads one value of a field's kind and appends it, without tag but
// with the tag that ends a group.
func (r *reader) value(f *fieldPlan, depth int) bool {
	switch f.kind {
	case protoreflect.StringKind:
		return r.str()
	case protoreflect.MessageKind:
		return r.nested(f.message, depth)
	case protoreflect.EnumKind:
		return r.enum(f.enum)
	case protoreflect.BoolKind:
		switch {
		case r.literal("true"):
			r.out = append(r.out, 1)
			return true
		case r.literal("false"):
			r.out = append(r.out, 0)
			return true
		}
		return r.invalid(r.pos, "bool")
	case protoreflect.BytesKind:
		return r.base64()
	case protoreflect.DoubleKind:
		v, ok := r.float(f.kind)
		r.out = protowire.AppendFixed64(r.out, math.Float64bits(v))
		return ok
	case protoreflect.FloatKind:
		v, ok := r.float(f.kind)
		r.out = protowire.AppendFixed32(r.out, math.Float32bits(float32(v)))
		return ok
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		v, ok := r.unsigned(f.kind)
		r.out = appendUint(r.out, f.kind, v)
		return ok
	case protoreflect.GroupKind:
		ok := r.content(f.message, depth+1)
		r.out = protowire.AppendTag(r.out, f.num, protowire.EndGroupType)
		return ok
	default:
		v, ok := r.signed(f.kind)
		r.out = appendInt(r.out, f.kind, v)
		return ok
	}
}

// enum reads an enum value by name or number. A number need not be known, of a
// closed enum neither: protojson has it so, and the backend knows best. A name
// that is not known is skipped where unknown fields are.
func (r *reader) enum(e *enumPlan) bool {
	start := r.pos
	switch c := r.next(); {
	case c == '"':
		name, ok := r.string()
		if !ok {
			return false
		}
		n, ok := e.byName[string(name)]
		if !ok {
			r.skipped = r.engine.discardUnknown
			return r.skipped || r.fail(start, "not a value of enum "+string(e.name))
		}
		r.out = protowire.AppendVarint(r.out, uint64(int64(n)))
		return true
	case c == '-' || c >= '0' && c <= '9':
		text, _, ok := r.number()
		if !ok {
			return false
		}
		neg, v, ok := parseInteger(text)
		if limit := uint64(math.MaxInt32); !ok || v > limit && !(neg && v == limit+1) {
			return r.invalid(start, "number of enum "+string(e.name))
		}
		if neg {
			v = -v
		}
		r.out = protowire.AppendVarint(r.out, v)
		return true
	case e.isNull && r.literal("null"):
		r.out = append(r.out, 0)
		return true
	}
	return r.invalid(start, "value of enum "+string(e.name))
}
