package transcode_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/transcode"
)

// jsonMaker makes bodies at random: legal ones, but unusual, and now and then
// one that is not.
type jsonMaker struct {
	*rand.Rand
	types *dynamicpb.Types
}

// one tells whether it is the one case of n.
func (j jsonMaker) one(n int) bool { return j.IntN(n) == 0 }

func (j jsonMaker) pick(from []string) string { return from[j.IntN(len(from))] }

var (
	jsonNumbers = []string{
		"0", "1", "-1", "2", "7", "1.0", "1e2", "100e-2", "0.5e1", "-0", "-0.0", "0e5", "0e99999999999", "1E+2", "10.0e-1", "1.50e1",
		"2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296", "9007199254740993",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
		"18446744073709551616", "99999999999999999999", "123456789012345678901", "1.5", "-1.5", "1e400", "3.4e38", "3.5e38", "1e-400",
		"1e21", "0.1e21", "0.00001e21", "1e19", "1e20", "12e-1", "120e-1", "5e-1", "0.05e3", "1e00000000000002", "123456.789", "1234567", "12345678", "1e99999999999",
	}
	badNumbers  = []string{"00", "01", "-", "1.", "1e", ".5", "+1", "1e+", "0x1", "--1", "1_0", "Infinity", "NaN", "1 1"}
	jsonStrings = []string{
		`""`, `"a"`, `"text of more than eight bytes"`, `"grüße 漢字 😀"`, `"\"\\\/\b\f\n\r\t"`, `"\u0041\u00e4\u20AC"`, `"\ud83d\ude00"`,
		`"\uD83D\uDE00 and so on, for long"`, `"\u0000"`, "\"\x7f\"", `"\ufffd"`, `"` + strings.Repeat("x", 130) + `"`, `"` + strings.Repeat(`\n`, 130) + `"`,
	}
	badStrings = []string{`"\ud800"`, `"\udc00\ud800"`, `"\ud800x"`, "\"\xff\"", "\"a\nb\"", `"\x"`, `"\u12"`, `"`, `"\`, "\"\xed\xa0\x80\"", `'a'`, `"\u+123"`}
	jsonBytes  = []string{`""`, `"AQ=="`, `"AQ"`, `"AQI="`, `"_-8"`, `"_-8="`, `"+/8="`, `"AR"`, `"A\nQ=="`, `"AQ\u003d="`}
	badBytes   = []string{`"A"`, `"AQ="`, `"+-8="`, `"A Q="`, `"AQ=\n="`, `"===="`}
	jsonTimes  = []string{`"2020-01-02T03:04:05Z"`, `"2020-01-02T03:04:05.123456789+02:00"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.999999999Z"`, `"1969-12-31T23:59:59.5Z"`, `"2020-01-02T03:04:05.1-00:00"`, `"2020\u002d01-02T03:04:05Z"`}
	oddTimes   = []string{`"2020-01-02T3:04:05Z"`, `"2020-01-02T03:04:05,5Z"`, `"2020-01-02T03:04:05.1234567890Z"`, `"2020-01-02t03:04:05z"`, `"2020-02-30T03:04:05Z"`, `"0000-12-31T23:59:59Z"`, `"9999-12-31T23:59:59-00:01"`, `"2020-01-02T03:04:60Z"`, `"2020-01-02 03:04:05Z"`, `"2020-01-02T03:04:05.Z"`, `"2020-01-02T03:04:05"`, `"2020-01-02T24:00:00Z"`, `"2020-01-02T03:04:05+24:00"`}
	jsonSpans  = []string{`"0s"`, `"1s"`, `"-1.5s"`, `"0.000000001s"`, `"+1s"`, `"1.s"`, `".5s"`, `"-.5s"`, `"315576000000s"`, `"-0s"`, `".s"`}
	badSpans   = []string{`"1"`, `"s"`, `"-s"`, `"01s"`, `"1.0000000001s"`, `"315576000001s"`, `"1ms"`, `"99999999999999999999s"`, `"1 s"`, `"1e1s"`, `"+-1s"`}
	jsonMasks  = []string{`""`, `"a"`, `"a,bC.d"`, `" a "`, `"fooBar,x1"`, `"A"`, `"\u00a0a"`, `"aB1.c2D"`}
	badMasks   = []string{`"a_b"`, `"a,"`, `"a..b"`, `"1a"`, `"a b"`, `",a"`, `"a."`, `"ä"`}
	jsonValues = []string{`null`, `true`, `false`, `{}`, `[]`, `[1,"x",null,{"a":[]}]`, `{"a":{"b":1}}`}
)

// body makes a whole body.
func (j jsonMaker) body(md protoreflect.MessageDescriptor) []byte {
	text := []byte(j.message(md, 4))
	if j.one(20) && len(text) > 0 {
		text = text[:j.IntN(len(text))]
	}
	if j.one(20) && len(text) > 0 {
		text[j.IntN(len(text))] = []byte(`{}[],:"\ 0e-.nx` + "\n\xff")[j.IntN(17)]
	}
	return text
}

// space is white space, most often none.
func (j jsonMaker) space() string {
	if j.one(10) {
		return j.pick([]string{" ", "\n", "\t\r\n ", "  "})
	}
	return ""
}

// quoted writes a name, now and then with escapes.
func (j jsonMaker) quoted(name string) string {
	if name != "" && j.one(20) {
		i := j.IntN(len(name))
		return fmt.Sprintf(`"%s\u%04x%s"`, name[:i], name[i], name[i+1:])
	}
	return `"` + name + `"`
}

// object writes members, which are text already.
func (j jsonMaker) object(members []string) string {
	return "{" + j.space() + strings.Join(members, j.space()+","+j.space()) + j.space() + "}"
}

func (j jsonMaker) member(name, value string) string {
	return j.quoted(name) + j.space() + ":" + j.space() + value
}

func (j jsonMaker) message(md protoreflect.MessageDescriptor, depth int) string {
	if j.one(100) {
		return j.pick(jsonValues)
	}
	scalar := func(good, bad []string) string {
		if j.one(15) {
			return j.pick(bad)
		}
		return j.pick(good)
	}
	switch md.FullName() {
	case "google.protobuf.Any":
		return j.any(depth)
	case "google.protobuf.Timestamp":
		return scalar(jsonTimes, oddTimes)
	case "google.protobuf.Duration":
		return scalar(jsonSpans, badSpans)
	case "google.protobuf.FieldMask":
		return scalar(jsonMasks, badMasks)
	case "google.protobuf.Value":
		return j.anything(depth)
	case "google.protobuf.Struct":
		return j.entries(depth, func() string { return j.key(protoreflect.StringKind) }, func() string { return j.anything(depth - 1) })
	case "google.protobuf.ListValue":
		return j.array(depth, func() string { return j.anything(depth - 1) })
	case "google.protobuf.BoolValue", "google.protobuf.Int32Value", "google.protobuf.Int64Value", "google.protobuf.UInt32Value", "google.protobuf.UInt64Value",
		"google.protobuf.FloatValue", "google.protobuf.DoubleValue", "google.protobuf.StringValue", "google.protobuf.BytesValue":
		return j.scalar(md.Fields().Get(0))
	}
	return j.object(j.members(md, depth))
}

func (j jsonMaker) members(md protoreflect.MessageDescriptor, depth int) []string {
	var members []string
	n := j.IntN(6)
	if depth <= 0 {
		n = 0
	}
	used := make(map[protoreflect.FullName]bool)
	for range n {
		fd := j.field(md)
		if fd == nil || j.one(25) {
			members = append(members, j.member(j.pick([]string{"nope", "[nope.nope]", "", "[", "[]", "@type", "[old.extra]", "[corners.z_number]"}), j.anything(depth-1)))
			continue
		}
		if used[fd.FullName()] && !j.one(10) {
			continue
		}
		used[fd.FullName()] = true
		name := fd.JSONName()
		switch {
		case fd.IsExtension():
			name = "[" + string(fd.FullName()) + "]"
		case j.one(4):
			name = fd.TextName()
		case fd.Kind() == protoreflect.GroupKind && j.one(3):
			name = strings.ToLower(name)
		}
		value := "null"
		if !j.one(15) {
			value = j.value(fd, depth)
		}
		members = append(members, j.member(name, value))
	}
	return members
}

// field picks one, or an extension; nil: there is none.
func (j jsonMaker) field(md protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	if md.ExtensionRanges().Len() > 0 && j.one(4) {
		numbers := []protoreflect.FieldNumber{100, 101, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1100, 1101}
		if x, err := j.types.FindExtensionByNumber(md.FullName(), numbers[j.IntN(len(numbers))]); err == nil {
			return x.TypeDescriptor()
		}
	}
	if md.Fields().Len() == 0 {
		return nil
	}
	return md.Fields().Get(j.IntN(md.Fields().Len()))
}

func (j jsonMaker) value(fd protoreflect.FieldDescriptor, depth int) string {
	one := func(fd protoreflect.FieldDescriptor) func() string {
		return func() string {
			switch {
			case j.one(60):
				return j.anything(1)
			case fd.Message() != nil:
				return j.message(fd.Message(), depth-1)
			default:
				return j.scalar(fd)
			}
		}
	}
	switch {
	case fd.IsMap():
		return j.entries(depth, func() string { return j.key(fd.MapKey().Kind()) }, one(fd.MapValue()))
	case fd.IsList():
		return j.array(depth, one(fd))
	default:
		return one(fd)()
	}
}

func (j jsonMaker) array(depth int, one func() string) string {
	var elements []string
	for range j.IntN(min(4, max(depth, 0)+1)) {
		elements = append(elements, one())
	}
	return "[" + j.space() + strings.Join(elements, j.space()+","+j.space()) + j.space() + "]"
}

func (j jsonMaker) entries(depth int, key, value func() string) string {
	var members []string
	n := j.IntN(min(4, max(depth, 0)+1))
	if j.one(40) {
		n = 14
	}
	for range n {
		members = append(members, key()+j.space()+":"+value())
	}
	return j.object(members)
}

func (j jsonMaker) key(k protoreflect.Kind) string {
	switch k {
	case protoreflect.StringKind:
		if j.one(2) {
			return `"` + strconv.Itoa(j.IntN(1000)) + `"`
		}
		return j.text()
	case protoreflect.BoolKind:
		return j.pick([]string{`"true"`, `"false"`, `"tru\u0065"`, `"True"`, `"1"`})
	default:
		if j.one(2) {
			return j.quoted(strconv.Itoa(j.IntN(1000) - 100))
		}
		return `"` + j.pick([]string{"0", "1", "-1", "+1", "01", "-0", "2147483648", "4294967295", "9223372036854775808", "18446744073709551615", "18446744073709551616", "1.0", "1e0", " 1", "", "1_0", "x"}) + `"`
	}
}

func (j jsonMaker) text() string {
	if j.one(40) {
		return j.pick(badStrings)
	}
	return j.pick(jsonStrings)
}

func (j jsonMaker) number() string {
	if j.one(40) {
		return j.pick(badNumbers)
	}
	return j.pick(jsonNumbers)
}

func (j jsonMaker) scalar(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return j.text()
	case protoreflect.BytesKind:
		if j.one(15) {
			return j.pick(badBytes)
		}
		return j.pick(jsonBytes)
	case protoreflect.BoolKind:
		return j.pick([]string{"true", "false", "true", "false", `"true"`, "0"})
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		switch j.IntN(8) {
		case 0:
			return j.number()
		case 1:
			return `"NOPE"`
		case 2:
			return strconv.Itoa(int(values.Get(j.IntN(values.Len())).Number()))
		default:
			return j.quoted(string(values.Get(j.IntN(values.Len())).Name()))
		}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if j.one(5) {
			return j.pick([]string{`"NaN"`, `"Infinity"`, `"-Infinity"`, `"nan"`, `"+Infinity"`, `"\u004eaN"`})
		}
	}
	small := strconv.Itoa(j.IntN(200))
	if j.one(3) {
		small = j.number()
	}
	switch j.IntN(12) {
	case 0, 1, 2:
		return `"` + small + `"`
	case 3:
		return `"` + j.pick([]string{" ", "", "\\u0020", "\\n"}) + small + j.pick([]string{" ", "", "x"}) + `"`
	case 4:
		return fmt.Sprintf(`"\u%04x%s"`, small[0], small[1:])
	default:
		return small
	}
}

// anything is any JSON.
func (j jsonMaker) anything(depth int) string {
	switch j.IntN(8) {
	case 0:
		return j.pick(jsonValues)
	case 1, 2:
		return j.text()
	case 3, 4:
		return j.number()
	case 5:
		return j.pick([]string{"true", "false", "null", "nul", "True"})
	case 6:
		return j.array(depth, func() string { return j.anything(depth - 1) })
	default:
		return j.entries(depth, func() string { return j.key(protoreflect.StringKind) }, func() string { return j.anything(depth - 1) })
	}
}

func (j jsonMaker) any(depth int) string {
	url := j.pick(madeTypes)
	if j.one(20) {
		url = j.pick(badTypes[:5])
	}
	var members []string
	if mt, err := transcode.Linked(j.types).FindMessageByURL(url); err == nil {
		md := mt.Descriptor()
		if md.ParentFile().Package() == "google.protobuf" {
			if !j.one(20) {
				members = append(members, j.member("value", j.message(md, depth-1)))
			}
			if j.one(10) {
				members = append(members, j.member(j.pick([]string{"value", "x"}), "1"))
			}
		} else {
			members = j.members(md, depth-1)
		}
	}
	if !j.one(30) {
		i := j.IntN(len(members) + 1)
		members = append(members[:i:i], append([]string{j.member("@type", `"`+url+`"`)}, members[i:]...)...)
	}
	return j.object(members)
}

// TestMadeBodies compares bodies made at random with protojson.
func TestMadeBodies(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 2_000
	}
	compare := madeBodies(t)
	for seed := range uint64(n) {
		compare(t, seed)
	}
}

// FuzzMadeBody does the same for as long as one likes.
func FuzzMadeBody(f *testing.F) {
	compare := madeBodies(f)
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		for i := range uint64(10) {
			compare(t, seed+i<<32)
		}
	})
}

// madeBodies makes a body of a seed, and compares.
func madeBodies(tb testing.TB) func(*testing.T, uint64) {
	var methods []*transcode.Method
	for _, m := range requestMethods {
		for _, o := range []byte{0, 8} {
			methods = append(methods, compile(tb, m.name, transcode.Binding{Body: "*"}, options(o)))
		}
	}
	return func(t *testing.T, seed uint64) {
		t.Helper()
		j := jsonMaker{rand.New(rand.NewPCG(seed, 1)), testSchema().types}
		i := j.IntN(len(methods))
		if j.one(2) {
			i %= 6 // the ones with many fields
		}
		name := requestMethods[i/2].name
		compareBodies(t, name, methods[i], i%2 == 1, j.body(method(t, name).Input()))
	}
}
