package transcode_test

import (
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// wireMaker makes messages at random: legal ones, but unusual, and now and
// then one that is not.
type wireMaker struct {
	*rand.Rand
	types *dynamicpb.Types
}

// one tells whether it is the one case of n.
func (w wireMaker) one(n int) bool { return w.IntN(n) == 0 }

var (
	madeTexts = []string{"", "a", "b", "text", "\"quoted\" \\ \n\x00\x1f\x7f", "grüße 漢字 😀", "long enough to take more than eight bytes at once", "\u2028<&>"}
	madePaths = []string{"a", "a_b.c", "foo_bar_baz", "x1.y", "a.b.c"}
	badPaths  = []string{"", "A", "a__b", "a_", "_a", "a_1", "a.", "a b", "fooBar"}
	madeTypes = []string{
		"type.googleapis.com/everything.Small", "type.googleapis.com/everything.Everything", "x/y/corners.Corner", "old.Legacy",
		"/google.protobuf.Any", "type.googleapis.com/google.protobuf.Timestamp", "t/google.protobuf.Value", "t/google.protobuf.Struct",
		"t/google.protobuf.StringValue", "t/google.protobuf.Empty", "t/google.protobuf.FieldMask", "t/everything.Order",
	}
	badTypes = []string{"", "/", "no/such.Type", "t/corners.Open", "t/\xff"}
)

// message makes the content of a message that nests depth more, at most.
func (w wireMaker) message(md protoreflect.MessageDescriptor, depth int) []byte {
	switch md.FullName() {
	case "google.protobuf.Any":
		return w.any(depth)
	case "google.protobuf.FieldMask":
		return w.fieldMask()
	case "google.protobuf.Timestamp", "google.protobuf.Duration":
		return w.seconds(md)
	}
	var wire []byte
	n := w.IntN(7)
	if md.FullName() == "google.protobuf.Value" && n == 0 && !w.one(20) {
		n = 1
	}
	favourite := w.IntN(max(md.Fields().Len(), 1))
	for range n {
		wire = w.record(wire, md, favourite, depth)
	}
	if w.one(300) && len(wire) > 0 {
		wire = wire[:w.IntN(len(wire))]
	}
	return wire
}

// record appends a field, known or not.
func (w wireMaker) record(wire []byte, md protoreflect.MessageDescriptor, favourite, depth int) []byte {
	if md.ExtensionRanges().Len() > 0 && w.one(5) {
		numbers := []protowire.Number{100, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1100, 1101, 1999}
		num := numbers[w.IntN(len(numbers))]
		if x, err := w.types.FindExtensionByNumber(md.FullName(), num); err == nil {
			return w.field(wire, x.TypeDescriptor(), depth)
		}
		return w.unknown(wire, num)
	}
	if md.Fields().Len() == 0 || w.one(15) {
		return w.unknown(wire, protowire.Number(1+w.IntN(90)))
	}
	i := w.IntN(md.Fields().Len())
	if w.one(3) {
		i = favourite
	}
	return w.field(wire, md.Fields().Get(i), depth)
}

// unknown appends a record of any number and type.
func (w wireMaker) unknown(wire []byte, num protowire.Number) []byte {
	if w.one(200) {
		num = []protowire.Number{0, protowire.MaxValidNumber, protowire.MaxValidNumber + 1}[w.IntN(3)]
	}
	t := protowire.Type(w.IntN(4))
	if w.one(200) {
		t = protowire.Type(w.IntN(8))
	}
	wire = protowire.AppendVarint(wire, uint64(num)<<3|uint64(t))
	switch t {
	case protowire.VarintType:
		return protowire.AppendVarint(wire, w.Uint64())
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(wire, w.Uint32())
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(wire, w.Uint64())
	case protowire.BytesType:
		return protowire.AppendString(wire, madeTexts[w.IntN(len(madeTexts))])
	case protowire.StartGroupType:
		if !w.one(2) {
			wire = w.unknown(wire, 7)
		}
		if w.one(50) {
			num++
		}
		return protowire.AppendTag(wire, max(num, 1), protowire.EndGroupType)
	default:
		return wire
	}
}

// field appends one record of a field.
func (w wireMaker) field(wire []byte, fd protoreflect.FieldDescriptor, depth int) []byte {
	num := fd.Number()
	switch {
	case w.one(60):
		return w.unknown(wire, num)
	case fd.IsMap():
		var entry []byte
		for range 2 + w.IntN(2) - w.IntN(3)/2 {
			part := fd.MapKey()
			if w.one(2) {
				part = fd.MapValue()
			}
			entry = w.field(entry, part, depth)
		}
		return protowire.AppendBytes(protowire.AppendTag(wire, num, protowire.BytesType), entry)
	case fd.Message() != nil:
		var content []byte
		if depth > 0 {
			content = w.message(fd.Message(), depth-1)
		} else if fd.Message().FullName() == "google.protobuf.Value" {
			content = []byte("\x1a\x01v")
		}
		if fd.Kind() == protoreflect.GroupKind {
			wire = append(protowire.AppendTag(wire, num, protowire.StartGroupType), content...)
			return protowire.AppendTag(wire, num, protowire.EndGroupType)
		}
		return protowire.AppendBytes(protowire.AppendTag(wire, num, protowire.BytesType), content)
	case fd.Kind() == protoreflect.StringKind, fd.Kind() == protoreflect.BytesKind:
		text := madeTexts[w.IntN(len(madeTexts))]
		if w.one(150) {
			text += "\xff"
		}
		return protowire.AppendString(protowire.AppendTag(wire, num, protowire.BytesType), text)
	case fd.IsList() && w.one(2):
		var run []byte
		for range w.IntN(4) {
			_, run = w.number(run, fd.Kind())
		}
		if w.one(300) && len(run) > 0 {
			run = run[:len(run)-1]
		}
		return protowire.AppendBytes(protowire.AppendTag(wire, num, protowire.BytesType), run)
	default:
		t, value := w.number(nil, fd.Kind())
		if fd.ContainingMessage().FullName() == "google.protobuf.Value" && t == protowire.Fixed64Type && !w.one(20) {
			value = protowire.AppendFixed64(nil, math.Float64bits(1.5))
		}
		return append(protowire.AppendTag(wire, num, t), value...)
	}
}

// number appends the value of a number, bool or enum field.
func (w wireMaker) number(wire []byte, k protoreflect.Kind) (protowire.Type, []byte) {
	v := []uint64{0, 1, 2, 5, math.MaxUint64, 1 << 31, math.MaxUint32, 1 << 63, w.Uint64(), w.Uint64() >> w.IntN(64)}[w.IntN(10)]
	switch k {
	case protoreflect.FloatKind:
		f := []float32{0, float32(math.Copysign(0, -1)), 1, 1.5, 1e-7, 1e21, float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(uint32(v))}[w.IntN(9)]
		return protowire.Fixed32Type, protowire.AppendFixed32(wire, math.Float32bits(f))
	case protoreflect.DoubleKind:
		f := []float64{0, math.Copysign(0, -1), 1, 19.99, 1e-7, 1e21, 123456789012345, 1e15, math.Inf(1), math.NaN(), float64(int64(v)), math.Float64frombits(v)}[w.IntN(12)]
		return protowire.Fixed64Type, protowire.AppendFixed64(wire, math.Float64bits(f))
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.Fixed32Type, protowire.AppendFixed32(wire, uint32(v))
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.Fixed64Type, protowire.AppendFixed64(wire, v)
	default:
		if w.one(20) && v < 128 {
			return protowire.VarintType, append(wire, byte(v)|0x80, 0x80, 0) // longer than need be
		}
		return protowire.VarintType, protowire.AppendVarint(wire, v)
	}
}

func (w wireMaker) any(depth int) []byte {
	var wire []byte
	for range 1 + w.IntN(8)/7 {
		url := madeTypes[w.IntN(len(madeTypes))]
		var content []byte
		if t, err := w.types.FindMessageByURL(url); err == nil && depth > 0 {
			content = w.message(t.Descriptor(), depth-1)
		}
		if w.one(60) {
			url = badTypes[w.IntN(len(badTypes))]
		}
		wire = protowire.AppendString(protowire.AppendTag(wire, 1, protowire.BytesType), url)
		wire = protowire.AppendBytes(protowire.AppendTag(wire, 2, protowire.BytesType), content)
	}
	if w.one(40) {
		return nil
	}
	return wire
}

func (w wireMaker) fieldMask() []byte {
	var wire []byte
	for range w.IntN(4) {
		path := madePaths[w.IntN(len(madePaths))]
		if w.one(60) {
			path = badPaths[w.IntN(len(badPaths))]
		}
		wire = protowire.AppendString(protowire.AppendTag(wire, 1, protowire.BytesType), path)
	}
	return wire
}

// seconds makes a Timestamp or Duration, mostly within its range.
func (w wireMaker) seconds(md protoreflect.MessageDescriptor) []byte {
	const limit = 62135596800 // year 1
	s, n := w.Int64N(5*limit)-limit, w.Int32N(1e9)
	if md.Name() == "Duration" && s < 0 {
		n = -n
	}
	switch w.IntN(20) {
	case 0:
		n = 0
	case 1:
		n = n / 1e6 * 1e6
	case 2:
		n = n / 1e3 * 1e3
	case 3:
		s = 0
	case 4:
		s = 253402300799 + w.Int64N(2)
	case 5:
		s = -limit - w.Int64N(2)
	}
	var wire []byte
	if w.one(10) {
		wire = w.unknown(wire, 1)
	}
	wire = protowire.AppendVarint(protowire.AppendTag(wire, 1, protowire.VarintType), uint64(s))
	return protowire.AppendVarint(protowire.AppendTag(wire, 2, protowire.VarintType), uint64(int64(n)))
}
