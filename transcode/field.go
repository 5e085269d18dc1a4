package transcode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Field reads one field of a message from its wire bytes, without decoding the
// rest: what a message says of itself that a policy looks at. It reads what
// protobuf's own decoders do: of several values the last one counts, messages
// that come in pieces are one, a member of a oneof takes the others' value
// away, what has another wire type than the field is none of it, and a field
// that is not there has its default.
//
// It is immutable and safe for concurrent use. Reading allocates nothing, and
// goes through each byte once for each message of the path at most.
type Field struct {
	steps  []fieldStep
	leaf   protoreflect.FieldDescriptor
	absent FieldValue // of a message without it
}

// fieldStep is a field on the way, or the last one.
type fieldStep struct {
	fieldTag
	rivals []fieldTag // the other members of its oneof
}

// fieldTag is how a field is marked on the wire.
type fieldTag struct {
	num  protowire.Number
	kind protowire.Type
}

// FieldValue is the value of a [Field]: a number, or a text. Those of different
// fields are not to be compared.
type FieldValue struct {
	number uint64 // of integers, bools and enums; signed ones in two's complement
	text   []byte // of strings and bytes: part of the message, or the default
	set    bool
}

// CompileField finds a field by its dotted path of names, as they are in the
// .proto file or in JSON. All but the last are singular messages, and the last
// is a singular integer, bool, enum, string or bytes.
func CompileField(md protoreflect.MessageDescriptor, path string) (*Field, error) {
	f := new(Field)
	for name := range strings.SplitSeq(path, ".") {
		if f.leaf != nil {
			if md = f.leaf.Message(); md == nil {
				return nil, fmt.Errorf("field %s is no message that %q could be in", f.leaf.FullName(), name)
			}
		}
		fd := md.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			fd = md.Fields().ByJSONName(name)
		}
		if fd == nil {
			return nil, fmt.Errorf("message %s has no field %q", md.FullName(), name)
		}
		if fd.Cardinality() == protoreflect.Repeated {
			return nil, fmt.Errorf("field %s has many values, and not one", fd.FullName())
		}
		f.leaf = fd
		f.steps = append(f.steps, newFieldStep(fd))
	}
	switch f.leaf.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind, protoreflect.FloatKind, protoreflect.DoubleKind:
		return nil, fmt.Errorf("field %s is a %s: only integers, bools, enums, strings and bytes can be read", f.leaf.FullName(), f.leaf.Kind())
	default:
		f.absent = defaultOf(f.leaf)
		return f, nil
	}
}

func newFieldStep(fd protoreflect.FieldDescriptor) fieldStep {
	s := fieldStep{fieldTag: tagOf(fd)}
	if oneof := fd.ContainingOneof(); oneof != nil {
		for i := range oneof.Fields().Len() {
			if other := oneof.Fields().Get(i); other.Number() != fd.Number() {
				s.rivals = append(s.rivals, tagOf(other))
			}
		}
	}
	return s
}

func tagOf(fd protoreflect.FieldDescriptor) fieldTag {
	t := fieldTag{num: fd.Number()}
	switch fd.Kind() {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		t.kind = protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		t.kind = protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		t.kind = protowire.BytesType
	case protoreflect.GroupKind:
		t.kind = protowire.StartGroupType
	default:
		t.kind = protowire.VarintType
	}
	return t
}

// Read gives the field's value in a message. The error says that the bytes are
// none.
func (f *Field) Read(msg []byte) (FieldValue, error) {
	var v FieldValue
	if err := f.walk(msg, 0, &v); err != nil {
		return FieldValue{}, err
	}
	if !v.set {
		return f.absent, nil
	}
	return v, nil
}

var errWire = errors.New("not the wire form of a message")

// walk reads the message that the step at is a field of. It goes no deeper than
// the path is long.
func (f *Field) walk(msg []byte, at int, v *FieldValue) error {
	step := &f.steps[at]
	for len(msg) > 0 {
		num, kind, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return errWire
		}
		size := protowire.ConsumeFieldValue(num, kind, msg[n:])
		if size < 0 {
			return errWire
		}
		value := msg[n : n+size]
		msg = msg[n+size:]
		switch tag := (fieldTag{num, kind}); {
		case tag != step.fieldTag:
			for _, rival := range step.rivals {
				if rival == tag {
					*v = FieldValue{}
				}
			}
		case at == len(f.steps)-1:
			f.take(value, v)
		default:
			if err := f.walk(content(tag, value), at+1, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// content is what is inside a field that is a message, of which is known that it
// is whole.
func content(tag fieldTag, value []byte) []byte {
	var inner []byte
	if tag.kind == protowire.StartGroupType {
		inner, _ = protowire.ConsumeGroup(tag.num, value)
	} else {
		inner, _ = protowire.ConsumeBytes(value)
	}
	return inner
}

// take reads the field's own value, of which is known that it is whole.
func (f *Field) take(value []byte, v *FieldValue) {
	*v = FieldValue{set: true}
	switch f.steps[len(f.steps)-1].kind {
	case protowire.BytesType:
		v.text, _ = protowire.ConsumeBytes(value)
	case protowire.Fixed32Type:
		n, _ := protowire.ConsumeFixed32(value)
		v.number = uint64(n)
	case protowire.Fixed64Type:
		v.number, _ = protowire.ConsumeFixed64(value)
	default:
		v.number, _ = protowire.ConsumeVarint(value)
	}
	switch f.leaf.Kind() {
	case protoreflect.Int32Kind, protoreflect.EnumKind, protoreflect.Sfixed32Kind:
		v.number = uint64(int64(int32(uint32(v.number & math.MaxUint32))))
	case protoreflect.Uint32Kind:
		v.number &= math.MaxUint32
	case protoreflect.Sint32Kind:
		v.number = uint64(protowire.DecodeZigZag(v.number & math.MaxUint32))
	case protoreflect.Sint64Kind:
		v.number = uint64(protowire.DecodeZigZag(v.number))
	case protoreflect.BoolKind:
		v.number = min(v.number, 1)
	default:
	}
}

// defaultOf is the value of a field that is not there.
func defaultOf(fd protoreflect.FieldDescriptor) FieldValue {
	switch d := fd.Default(); fd.Kind() {
	case protoreflect.StringKind:
		return FieldValue{text: []byte(d.String())}
	case protoreflect.BytesKind:
		return FieldValue{text: d.Bytes()}
	default:
		return FieldValue{number: number(fd.Kind(), d)}
	}
}

func number(kind protoreflect.Kind, v protoreflect.Value) uint64 {
	switch kind {
	case protoreflect.BoolKind:
		if v.Bool() {
			return 1
		}
		return 0
	case protoreflect.EnumKind:
		return uint64(int64(v.Enum()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return v.Uint()
	default:
		return uint64(v.Int())
	}
}

// IsSet tells whether the message had the field.
func (v FieldValue) IsSet() bool { return v.set }

// Equal tells whether two values of one field are the same, be it by default.
func (v FieldValue) Equal(other FieldValue) bool {
	return v.number == other.number && bytes.Equal(v.text, other.text)
}

// Text is a value as it is written: a number in decimal, enums' too, true or
// false, or the text itself.
func (f *Field) Text(v FieldValue) string {
	switch f.leaf.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return string(v.text)
	case protoreflect.BoolKind:
		return strconv.FormatBool(v.number != 0)
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return strconv.FormatUint(v.number, 10)
	default:
		return strconv.FormatInt(int64(v.number), 10)
	}
}

// Parse reads a value as it is written: a number, true or false, or 1 or 0, an
// enum's name or number, or a text.
func (f *Field) Parse(text string) (FieldValue, error) {
	fault := func(want string) error { return fmt.Errorf("%q is not %s, as %s is", text, want, f.leaf.FullName()) }
	signed := func(bits int) (FieldValue, error) {
		n, err := strconv.ParseInt(text, 10, bits)
		if err != nil {
			return FieldValue{}, fault(fmt.Sprintf("an integer of %d bits", bits))
		}
		return FieldValue{number: uint64(n), set: true}, nil
	}
	unsigned := func(bits int) (FieldValue, error) {
		n, err := strconv.ParseUint(text, 10, bits)
		if err != nil {
			return FieldValue{}, fault(fmt.Sprintf("an unsigned integer of %d bits", bits))
		}
		return FieldValue{number: n, set: true}, nil
	}
	switch f.leaf.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return FieldValue{text: []byte(text), set: true}, nil
	case protoreflect.BoolKind:
		switch text {
		case "true", "1":
			return FieldValue{number: 1, set: true}, nil
		case "false", "0":
			return FieldValue{set: true}, nil
		}
		return FieldValue{}, fault("true or false")
	case protoreflect.EnumKind:
		if ev := f.leaf.Enum().Values().ByName(protoreflect.Name(text)); ev != nil {
			return FieldValue{number: uint64(int64(ev.Number())), set: true}, nil
		}
		v, err := signed(32)
		if err != nil {
			return FieldValue{}, fmt.Errorf("%q is neither a name nor a number of enum %s", text, f.leaf.Enum().FullName())
		}
		return v, nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return signed(32)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return unsigned(32)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return unsigned(64)
	default:
		return signed(64)
	}
}
