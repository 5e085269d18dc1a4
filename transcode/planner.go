package transcode

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// planner builds plans, one per type.
type planner struct {
	protoNames   bool
	enumNumbers  bool
	int64Numbers bool
	messages     map[protoreflect.FullName]*messagePlan
	enums        map[protoreflect.FullName]*enumPlan
	// begun are the messages whose plans were begun since the last one asked for was complete.
	begun []protoreflect.FullName
}

// plan gives a message's plan. When it fails it leaves nothing half-built to
// be found by a later one.
func (p *planner) plan(md protoreflect.MessageDescriptor) (mp *messagePlan, err error) {
	defer p.keep(&err)
	return p.message(md)
}

// extension gives the plan of an extension, under the same terms.
func (p *planner) extension(xd protoreflect.ExtensionDescriptor) (f *fieldPlan, err error) {
	defer p.keep(&err)
	return p.field(xd)
}

// keep keeps the plans that were begun, or forgets them after an error.
func (p *planner) keep(err *error) {
	if *err != nil {
		for _, name := range p.begun {
			delete(p.messages, name)
		}
	}
	p.findNeedy()
	p.begun = nil
}

// findNeedy marks the new plans that are needy. Those before have been, and
// know none of the new ones.
func (p *planner) findNeedy() {
	for changed := true; changed; {
		changed = false
		for _, name := range p.begun {
			if mp := p.messages[name]; mp != nil && !mp.needy && mp.isNeedy() {
				mp.needy, changed = true, true
			}
		}
	}
}

func (p *planner) message(md protoreflect.MessageDescriptor) (*messagePlan, error) {
	if mp, ok := p.messages[md.FullName()]; ok {
		return mp, nil
	}
	if md.IsPlaceholder() {
		return nil, fmt.Errorf("message %s is not defined", md.FullName())
	}
	sp, err := specialOf(md)
	if err != nil {
		return nil, err
	}
	fds := md.Fields()
	mp := &messagePlan{
		desc:       md,
		special:    sp,
		messageSet: isMessageSet(md),
		extendable: md.ExtensionRanges().Len() > 0,
		oneofs:     md.Oneofs().Len(),
		words:      (fds.Len() + md.Oneofs().Len() + 63) / 64,
		fields:     make([]*fieldPlan, fds.Len()),
		byJSON:     make(map[string]*fieldPlan, 2*fds.Len()),
		byText:     make(map[string]*fieldPlan, 2*fds.Len()),
	}
	// Registered before its fields are built: they may be of this type.
	p.messages[md.FullName()] = mp
	p.begun = append(p.begun, md.FullName())
	for i := range fds.Len() {
		f, err := p.field(fds.Get(i))
		if err != nil {
			return nil, err
		}
		f.index = i
		mp.fields[i] = f
		if f.required {
			mp.required = append(mp.required, f)
		}
	}
	mp.index()
	return mp, nil
}

func (p *planner) field(fd protoreflect.FieldDescriptor) (*fieldPlan, error) {
	f := &fieldPlan{
		desc:     fd,
		num:      fd.Number(),
		kind:     fd.Kind(),
		name:     fd.TextName(),
		jsonName: fd.JSONName(),
		list:     fd.IsList(),
		isMap:    fd.IsMap(),
		presence: fd.HasPresence(),
		required: fd.Cardinality() == protoreflect.Required,
		oneof:    -1,
	}
	name := f.jsonName
	if p.protoNames {
		name = fd.TextName()
	}
	member, ok := appendString([]byte{','}, []byte(name))
	if !ok {
		return nil, fmt.Errorf("field %s: its JSON name is not UTF-8", fd.FullName())
	}
	f.member = string(member) + ":"
	f.tag = protowire.EncodeTag(f.num, wireType(f.kind))
	if f.isMap {
		f.tag = protowire.EncodeTag(f.num, protowire.BytesType)
	}
	f.runTag = f.tag
	if f.list && wireType(f.kind) != protowire.BytesType && wireType(f.kind) != protowire.StartGroupType {
		f.runTag = protowire.EncodeTag(f.num, protowire.BytesType)
	}
	f.utf8 = f.kind == protoreflect.StringKind && enforcesUTF8(fd)
	if fd.IsExtension() {
		f.index = -1
	}
	if fd.IsPacked() {
		f.packedTag = protowire.EncodeTag(f.num, protowire.BytesType)
	}
	if od := fd.ContainingOneof(); od != nil {
		f.omitUnset = true
		if !od.IsSynthetic() {
			f.oneof = od.Index()
		}
	}
	var err error
	switch {
	case f.isMap:
		if f.mapKey, err = p.field(fd.MapKey()); err != nil {
			return nil, err
		}
		if f.mapValue, err = p.field(fd.MapValue()); err != nil {
			return nil, err
		}
		f.entry, err = p.message(fd.Message())
	case fd.Message() != nil:
		f.message, err = p.message(fd.Message())
	case fd.Enum() != nil:
		f.enum, err = p.enum(fd.Enum())
	}
	if err != nil {
		return nil, err
	}
	f.zero = p.zero(f)
	if fd.Message() == nil && !f.list {
		f.unset = appendDefault(nil, fd)
	}
	return f, nil
}

// appendDefault appends the value of an unset field as on the wire, but without length.
func appendDefault(dst []byte, fd protoreflect.FieldDescriptor) []byte {
	v := fd.Default()
	switch fd.Kind() {
	case protoreflect.StringKind:
		return append(dst, v.String()...)
	case protoreflect.BytesKind:
		return append(dst, v.Bytes()...)
	case protoreflect.BoolKind:
		return protowire.AppendVarint(dst, protowire.EncodeBool(v.Bool()))
	case protoreflect.EnumKind:
		return protowire.AppendVarint(dst, uint64(int64(v.Enum())))
	case protoreflect.FloatKind:
		return protowire.AppendFixed32(dst, math.Float32bits(float32(v.Float())))
	case protoreflect.DoubleKind:
		return protowire.AppendFixed64(dst, math.Float64bits(v.Float()))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return appendUint(dst, fd.Kind(), v.Uint())
	default:
		return appendInt(dst, fd.Kind(), v.Int())
	}
}

// enforcesUTF8 is protobuf-go's rule for which strings are validated when a message is read.
func enforcesUTF8(fd protoreflect.FieldDescriptor) bool {
	if fd.ParentFile().Syntax() == protoreflect.Editions {
		if fd, ok := fd.(interface{ EnforceUTF8() bool }); ok {
			return fd.EnforceUTF8()
		}
	}
	return fd.ParentFile().Syntax() == protoreflect.Proto3
}

// zero is what protojson writes for an unset field when it writes those too.
func (p *planner) zero(f *fieldPlan) string {
	switch {
	case f.list:
		return "[]"
	case f.isMap:
		return "{}"
	case f.presence:
		return "null"
	}
	switch f.kind {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return `""`
	case protoreflect.BoolKind:
		return "false"
	case protoreflect.EnumKind:
		if f.enum.isNull {
			return "null"
		}
		if name, ok := f.enum.byNumber[0]; ok && !p.enumNumbers {
			return `"` + name + `"`
		}
		return "0"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "0"
	default:
		if bitSize(f.kind) == 64 && !p.int64Numbers {
			return `"0"`
		}
		return "0"
	}
}

func (p *planner) enum(ed protoreflect.EnumDescriptor) (*enumPlan, error) {
	if ep, ok := p.enums[ed.FullName()]; ok {
		return ep, nil
	}
	if ed.IsPlaceholder() {
		return nil, fmt.Errorf("enum %s is not defined", ed.FullName())
	}
	values := ed.Values()
	ep := &enumPlan{
		name:     ed.FullName(),
		byName:   make(map[string]int32, values.Len()),
		byNumber: make(map[int32]string, values.Len()),
		isNull:   ed.FullName() == "google.protobuf.NullValue",
	}
	for i := range values.Len() {
		v := values.Get(i)
		n := v.Number()
		ep.byName[string(v.Name())] = int32(n)
		// Of aliases, the one that the descriptor prefers.
		ep.byNumber[int32(n)] = string(values.ByNumber(n).Name())
	}
	const small = 64
	for n := range int32(small) {
		name, ok := ep.byNumber[n]
		if !ok {
			ep.quoted = append(ep.quoted, "")
			continue
		}
		ep.quoted = append(ep.quoted, `"`+name+`"`)
	}
	p.enums[ed.FullName()] = ep
	return ep, nil
}

// wireType of one value of the kind.
func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	default:
		return protowire.VarintType
	}
}

// isMessageSet: proto1's MessageSet, which protojson refuses. Whether a message
// is one, protobuf-go asks in this way.
func isMessageSet(md protoreflect.MessageDescriptor) bool {
	set, ok := md.(interface{ IsMessageSet() bool })
	return ok && set.IsMessageSet()
}
