package transcode_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// options of a fuzzed byte.
func options(b byte) config.JSON {
	return config.JSON{
		EmitDefaults:   b&1 != 0,
		UseProtoNames:  b&2 != 0,
		EnumsAsNumbers: b&4 != 0,
		DiscardUnknown: b&8 != 0,
	}
}

// bodies are seeds with every kind of field.
var bodies = []string{
	`{}`,
	`{"stringValue":"a\"\\\u00e4\ud83d\ude00ü","boolValue":true,"int32Value":-5,"sint32_value":"7","uint32Value":4294967295,"floatValue":1.5e3,"doubleValue":"NaN","int64Value":"-9223372036854775808","uint64Value":18446744073709551615}`,
	`{"fixed32Value":1,"sfixed32Value":-1,"fixed64Value":"2","sfixed64Value":"-2","sint64Value":"3","bytesValue":"-_8","color":"RED","aliased":2,"optionalInt":0,"optionalString":"","optionalColor":0}`,
	`{"sub":{"sub":{"strings":["a","b",""]}},"ints":[1,2,3],"longs":["1",2],"doubles":[1,2.5,"Infinity"],"bools":[true,false],"blobs":["AQ==","_w"],"colors":["RED",2],"smalls":[{},{"id":1,"tags":["x"]}],"unpacked":[1,2]}`,
	`{"labels":{"a":"b","c":""},"byInt":{"-1":"x"},"byLong":{"5":"GREEN"},"byBool":{"true":1.5,"false":0},"byUlong":{"1":{"id":"2"}},"durations":{"d":"1.5s"},"byFixed":{"7":"AQ=="}}`,
	`{"time":"2020-01-02T03:04:05.123456789+02:00","times":["1970-01-01T00:00:00Z"],"duration":"-0.5s","mask":"a.b,cD","struct":{"a":[1,{"b":null}]},"value":null,"list":[1,"x"],"any":{"@type":"type.googleapis.com/everything.Small","id":1},"empty":{}}`,
	`{"boolWrapper":false,"int32Wrapper":0,"int64Wrapper":"1","uint32Wrapper":2,"uint64Wrapper":"3","floatWrapper":1.5,"doubleWrapper":-0.0,"stringWrapper":"s","bytesWrapper":"AQ"}`,
	`{"choiceSmall":{"a":"x"},"otherBool":false}`, `{"choiceTime":"1970-01-01T00:00:01Z"}`, `{"choiceNull":null}`,
	`{"stringValue":"\u0000\u001f\b\f\n\r\t\/\"\\\u20AC\uD83D\uDE00 after","labels":{"k\u0031":"v","1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":"","10":"","11":"","12":"","13":""}}`,
	`{"labels":{"1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":"","10":"","11":"","12":"","13":"","1":""}}`,
	`{"nope":{"a":[true,false,null,-1.5e-3,"\ud83d\ude00",{},[]],"b":{"c":"d"}},"boolValue":true}`,
	`{"choiceInt":1,"choiceString":"x"}`, `{"labels":{"a":"1","a":"2"}}`, `{"int32Value":1e2,"nope":[{"a":1e5,"b":"\u0000"}],"color":"NOPE"}`,
	`{"stringValue":"b"}x`, `{} {}`, `null`, `[]`, `{"int32Value":01}`, `{"int32Value":1e}`, `{"ints":[1,]}`, `{"ints":[null]}`, "{\"stringValue\":\"\xff\"}",
	" \n{ \"other name\" :\t\"x\" , \"far\" : 1 } ",
}

// requestMethods are the methods whose bodies are compared, and seeds beside those of echo.
var requestMethods = []struct {
	name   protoreflect.FullName
	bodies []string
}{
	{echo, bodies},
	{legacy, []string{
		`{"id":1,"Inner":{"yes":true,"text":"t"},"[old.extra]":"e","kind":"FIRST","subs":[{"id":2}],"numbers":[1,"2",3.0]}`,
		`{"inner":{"yes":false},"[old.extra]":null}`, `{"[old.extra]":"a","[old.extra]":"b"}`, `{"[old.nope]":1}`, `{"[corners.z_number]":1}`,
		`{"kind":7,"count":-0,"name":""}`, `{"kind":"NOPE","subs":[null]}`,
	}},
	{corner, []string{
		`{"explicit":0,"implicit":0,"checked":"","unchecked":"x","uncheckedList":["a",""],"delimited":{"explicit":1,"delimited":{}},"delimitedList":[{},{"implicit":3}],"prefixedList":[{}]}`,
		`{"packed":[1,2],"expanded":["-1",2],"floats":[1.5,"NaN","-Infinity","1e3",3.5e38],"closedList":["CLOSED_ONE",2,-3,"NOPE"],"fixedList":["18446744073709551615",0]}`,
		`{"byText":{"a":{"explicit":1},"b":{}},"byLong":{"-1":"CLOSED_TWO","2":"NOPE","3":9},"byBool":{"true":"x"},"byUint":{"+1":"AQ"},"anysByText":{"x":{"@type":"t/google.protobuf.Empty"}}}`,
		`{"byLong":{"1":"NOPE","1":"CLOSED_ONE"}}`, `{"byLong":{"1":"CLOSED_ONE","01":"NOPE"}}`, `{"byLong":{"-0":1,"0":2}}`,
		`{"choiceDelimited":{"explicit":1}}`, `{"choiceValue":null}`, `{"choiceText":null,"choiceInt":1}`, `{"choiceValue":null,"choiceInt":1}`,
		`{"any":{"@type":"t/corners.Corner","explicit":1,"any":{"explicit":2,"@type":"x/corners.Corner"}},"anys":[{},{"value":"1s","@type":"t/google.protobuf.Duration"}]}`,
		`{"any":{"@type":"t/google.protobuf.Any","value":{"@type":"t/google.protobuf.Value","value":[1,{"a":null}]}}}`,
		`{"any":{"@type":"t/google.protobuf.Empty","value":{"x":1}}}`, `{"any":{"@type":"t/google.protobuf.Int64Value"}}`, `{"any":{"a":1}}`,
		`{"any":{"@type":"t/corners.Corner","@type":"t/corners.Corner"}}`, `{"any":{"@type":"t/google.protobuf.BoolValue","value":true,"value":true}}`,
		`{"any":{"\u0040type":"t/google.protobuf.StringValue","v\u0061lue":"\u0041"}}`, `{"any":{"@type":""}}`, `{"any":{"@type":1}}`, `{"any":{"@type":"nope"}}`,
		`{"value":{"a":[1,"x",true,false,null,{"b":[]}]},"struct":{"a":1,"b":1e400},"list":[[],{}],"values":[null,1,"x"]}`, `{"struct":{"a":1,"a":2}}`, `{"list":null,"values":null}`,
		`{"[corners.z_number]":0,"[corners.m_longs]":["1",2],"[corners.delimited]":{"explicit":1},"[corners.messages]":[{"number":1}],"[corners.closed]":"CLOSED_MINUS","[corners.value]":null,"[corners.Extended.inside]":{},"[corners.Extended.texts]":["a"]}`,
		`{"explicit":1.0,"longDefault":"1e3","packed":[100e-2,0.5e1,-0,-0.0e9,10.0e-1,1e-1,0.1e21,"1.","01"," 1","1 "],"byLong":{}}`,
		`{"time":"2020-01-02T3:04:05Z"}`, `{"time":"2020-01-02T03:04:05,1234567891Z"}`, `{"time":"2020-01-02T03:04:05.1234567891Z"}`, `{"time":"9999-12-31T23:59:59-00:01"}`,
		`{"wrapped":null,"wrappedLong":"5"}`, `{"wrapped":"\ud800"}`, `{"bytesDefault":"A\nQ=="}`, `{"bytesDefault":"AR"}`,
	}},
	{twins, []string{`{"fooBar":1}`, `{"foo_bar":1,"fooBar":"x"}`, `{"foo_bar":1,"other":2}`}},
	{"everything.Service.Anything", []string{`null`, `1`, `"x"`, `[null]`, `{"a":{}}`, `1e999`, ` true `}},
	{"everything.Service.Nothing", []string{`{}`, `{"a":1}`, `[]`, `{"[x]":1}`}},
}

// differs tells whether a body is one that rpcgate refuses and protojson is
// meant to take; see "What differs" in the package's documentation.
func differs(body []byte, discard bool, err error) bool {
	var bad *transcode.Error
	if !errors.As(err, &bad) {
		return false
	}
	switch {
	case strings.Contains(bad.Reason, "given more than once"):
		return discard // an entry of a name that is no enum's value
	case strings.Contains(bad.Reason, "nested too deeply"), strings.Contains(bad.Reason, "too much Any"):
		return bytes.Count(body, []byte("@type")) > 10
	default:
		return false
	}
}

// FuzzBody compares bodies with protojson: the same are taken, to the same message.
func FuzzBody(f *testing.F) {
	var methods []*transcode.Method
	for i, m := range requestMethods {
		for _, o := range []byte{0, 8} {
			methods = append(methods, compile(f, m.name, transcode.Binding{Body: "*"}, options(o)))
			for _, b := range m.bodies {
				f.Add([]byte(b), byte(2*i)+o/8)
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, which byte) {
		i := int(which) % len(methods)
		compareBodies(t, requestMethods[i/2].name, methods[i], i%2 == 1, body)
	})
}

// compareBodies reads a body in both ways.
func compareBodies(t *testing.T, name protoreflect.FullName, m *transcode.Method, discard bool, body []byte) {
	t.Helper()
	want, wantErr := m.SlowBody(nil, body)
	got, err := m.ReadBody([]byte("before"), body)
	if !bytes.HasPrefix(got, []byte("before")) || err != nil && len(got) > len("before") {
		t.Fatalf("%q: what was before is gone, or something was left: %q", body, got)
	}
	checkPublic(t, body, err)
	if (err == nil) != (wantErr == nil) && !(wantErr == nil && differs(body, discard, err)) {
		t.Fatalf("%q: err = %v, protojson says %v", body, err, wantErr)
	}
	if err != nil {
		return
	}
	g, w := decode(t, name, got[len("before"):]), decode(t, name, want)
	canonical(t, g)
	canonical(t, w)
	if !proto.Equal(g, w) {
		t.Fatalf("%q:\ngot  %s\nwant %s", body, show(g), show(w))
	}
}

// canonical brings what lies in Any's into one form, for proto.Equal to compare.
func canonical(t testing.TB, m protoreflect.Message) {
	t.Helper()
	if m.Descriptor().FullName() == "google.protobuf.Any" {
		fields := m.Descriptor().Fields()
		url, value := m.Get(fields.ByNumber(1)).String(), m.Get(fields.ByNumber(2)).Bytes()
		if url == "" {
			return
		}
		mt, err := transcode.Linked(testSchema().types).FindMessageByURL(url)
		if err != nil {
			t.Fatalf("Any of %q: %v", url, err)
		}
		inside := dynamicpb.NewMessage(mt.Descriptor())
		if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: testSchema().types}).Unmarshal(value, inside); err != nil {
			t.Fatalf("not an Any of %q: %v\n% x", url, err, value)
		}
		canonical(t, inside)
		if value, err = (proto.MarshalOptions{AllowPartial: true, Deterministic: true}).Marshal(inside); err != nil {
			t.Fatal(err)
		}
		if len(value) > 0 {
			m.Set(fields.ByNumber(2), protoreflect.ValueOfBytes(value))
		}
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					canonical(t, v.Message())
					return true
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				canonical(t, v.List().Get(i).Message())
			}
		default:
			canonical(t, v.Message())
		}
		return true
	})
}

// checkPublic checks that an error may be shown, and names a place in the body.
func checkPublic(t *testing.T, body []byte, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var bad *transcode.Error
	if !errors.As(err, &bad) {
		t.Fatalf("err = %v, want an *Error", err)
	}
	if bad.Offset < -1 || bad.Offset > len(body) || bad.Reason == "" {
		t.Fatalf("%q: offset %d, reason %q", body, bad.Offset, bad.Reason)
	}
	text := err.Error()
	if len(text) > 400 || strings.ContainsAny(text, "\n\r\x00") {
		t.Fatalf("not fit to be shown: %q", text)
	}
	// What the caller wrote may be anything.
	text = strings.ReplaceAll(text, bad.Field, "")
	for _, word := range []string{"json:", "proto:", "strconv", "invalid character", "protobuf-go", "syntax error"} {
		if strings.Contains(text, word) {
			t.Fatalf("the error speaks of Go: %q", text)
		}
	}
}

// fieldBodies are fields that a body may be.
var fieldBodies = []string{"sub", "sub.other_sub", "int64_value", "string_value", "float_value", "bytes_value", "color", "optional_int", "choice_int", "choice_null", "ints", "smalls", "strings", "labels", "by_ulong", "time", "struct", "value", "any", "string_wrapper", "sub.labels"}

// FuzzFieldBody does the same for bodies that are one field.
func FuzzFieldBody(f *testing.F) {
	for i, b := range []string{`{"stringValue":"x"}`, `{}`, `"-5"`, `"x"`, `1.5`, `"AQ=="`, `"RED"`, `0`, `1`, `null`, `[1,2]`, `[{"id":1}]`, `["a"]`, `{"a":"b"}`, `{"1":{}}`, `"1970-01-01T00:00:00Z"`, `{"a":1}`, `null`, `{"@type":"x"}`, `"x"`, `{"a":"b"}`, `1,"stringValue":"x"`} {
		f.Add(byte(i), []byte(b))
	}
	methods := make([]*transcode.Method, len(fieldBodies))
	for i, field := range fieldBodies {
		methods[i] = compile(f, echo, transcode.Binding{Body: field}, defaults)
	}
	f.Fuzz(func(t *testing.T, which byte, body []byte) {
		compareBodies(t, echo, methods[int(which)%len(methods)], true, body)
	})
}
