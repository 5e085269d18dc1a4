package transcode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

func TestAppendRequest(t *testing.T) {
	tests := []struct {
		name    string
		method  protoreflect.FullName // echo when empty
		binding transcode.Binding
		strict  bool // unknown fields are refused
		body    string
		query   string
		vars    []string
		want    string // the message as JSON
		field   string // of the *Error, when one is wanted
		reason  string // what the error says, in part
	}{
		// Bodies.
		{name: "whole body", binding: transcode.Binding{Body: "*"}, body: ` {"stringValue":"x","int64_value":"9007199254740993"} `, want: `{"stringValue":"x","int64Value":"9007199254740993"}`},
		{name: "64-bit number without quotes stays exact", binding: transcode.Binding{Body: "*"}, body: `{"int64Value":9007199254740993,"uint64Value":18446744073709551615}`, want: `{"int64Value":"9007199254740993","uint64Value":"18446744073709551615"}`},
		{name: "empty body is the empty message", binding: transcode.Binding{Body: "*"}, want: `{}`},
		{name: "blank body is the empty message", binding: transcode.Binding{Body: "*"}, body: " \r\n\t", want: `{}`},
		{name: "garbage after the body", binding: transcode.Binding{Body: "*"}, body: `{"stringValue":"b"}x`, reason: "request body: malformed JSON"},
		{name: "two objects in a row", binding: transcode.Binding{Body: "*"}, body: `{"stringValue":"b"}{"stringValue":"c"}`, reason: "request body"},
		{name: "two objects on two lines", binding: transcode.Binding{Body: "*"}, body: "{}\n{}", reason: "request body: unexpected object"},
		{name: "closing brace too many", binding: transcode.Binding{Body: "*"}, body: `{}}`, reason: "request body"},
		{name: "null is no message", binding: transcode.Binding{Body: "*"}, body: `null`, reason: "request body: unexpected null"},
		{name: "array is no message", binding: transcode.Binding{Body: "*"}, body: `[]`, reason: "request body: unexpected array"},
		{name: "null is a value", method: "everything.Service.Anything", binding: transcode.Binding{Body: "*"}, body: `null`, want: `null`},
		{name: "null leaves a field unset", binding: transcode.Binding{Body: "*"}, body: `{"stringValue":null,"sub":null,"strings":null,"labels":null,"time":null}`, want: `{}`},
		{name: "null in a list", binding: transcode.Binding{Body: "*"}, body: `{"strings":["a",null]}`, field: "strings[1]", reason: "not a valid string"},
		{name: "truncated", binding: transcode.Binding{Body: "*"}, body: `{"stringValue":"b`, field: "stringValue", reason: "the JSON ends too early"},
		{name: "invalid UTF-8", binding: transcode.Binding{Body: "*"}, body: "{\"stringValue\":\"\xff\"}", field: "stringValue", reason: "not valid UTF-8"},
		{name: "lone surrogate", binding: transcode.Binding{Body: "*"}, body: `{"stringValue":"\ud800 abcdef"}`, field: "stringValue", reason: "malformed escape"},
		{name: "wrong kind", binding: transcode.Binding{Body: "*"}, body: `{"subs":[{},{"labels":{"a":"x"},"sub":{"int32Value":"secret"}}]}`, field: "subs[1].sub.int32Value", reason: "not a valid int32"},
		{name: "out of range", binding: transcode.Binding{Body: "*"}, body: `{"uint32Value":4294967296}`, field: "uint32Value", reason: "not a valid uint32"},
		{name: "object for a scalar", binding: transcode.Binding{Body: "*"}, body: `{"stringValue":{}}`, field: "stringValue", reason: "not a valid string"},
		{name: "scalar for an object", binding: transcode.Binding{Body: "*"}, body: `{"sub":"x"}`, field: "sub", reason: "unexpected string"},
		{name: "unknown field ignored", binding: transcode.Binding{Body: "*"}, body: `{"nope":{"a":[1,{}]},"boolValue":true}`, want: `{"boolValue":true}`},
		{name: "unknown field refused", strict: true, binding: transcode.Binding{Body: "*"}, body: `{"sub":{"nope":1}}`, field: "sub.nope", reason: "no such field"},
		{name: "field twice", binding: transcode.Binding{Body: "*"}, body: `{"stringValue":"a","string_value":"b"}`, field: "string_value", reason: "given more than once"},
		{name: "map key twice", binding: transcode.Binding{Body: "*"}, body: `{"byInt":{"1":"a","01":"b"}}`, field: "byInt.01", reason: "given more than once"},
		{name: "two members of a oneof", binding: transcode.Binding{Body: "*"}, body: `{"choiceInt":1,"choiceString":"b"}`, field: "choiceString", reason: "another member of oneof choice is set already"},
		{name: "bad timestamp", binding: transcode.Binding{Body: "*"}, body: `{"time":"yesterday"}`, field: "time", reason: "not a valid google.protobuf.Timestamp"},
		{name: "unknown Any", binding: transcode.Binding{Body: "*"}, body: `{"any":{"@type":"type.googleapis.com/no.Such"}}`, field: "any.@type", reason: "the type is not known"},
		{name: "Any of a type of the backend", binding: transcode.Binding{Body: "*"}, body: `{"any":{"@type":"type.googleapis.com/everything.Small","id":"1"}}`, want: `{"any":{"@type":"type.googleapis.com/everything.Small","id":"1"}}`},
		{name: "Any of a type linked into the program", binding: transcode.Binding{Body: "*"}, body: `{"any":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"}}`, want: `{"any":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"}}`},
		{name: "nested too deeply", binding: transcode.Binding{Body: "*"}, body: strings.Repeat(`{"sub":`, 101) + `{}` + strings.Repeat(`}`, 101), field: strings.Repeat("sub.", 32) + "…", reason: "nested too deeply"},
		{name: "Any in Any in Any", binding: transcode.Binding{Body: "*"}, body: deepAny(`"@type":"x/google.protobuf.Any","value":`, "", 98, ""), want: deepAny(`"@type":"x/google.protobuf.Any","value":`, "", 98, "")},
		{name: "Any in Any in Any, too deep", binding: transcode.Binding{Body: "*"}, body: deepAny(`"@type":"x/google.protobuf.Any","value":`, "", 99, ""), field: "any" + strings.Repeat(".value", 20) + ".valu…", reason: "nested too deeply"},
		{name: "Any in Any in Any, the types last", binding: transcode.Binding{Body: "*"}, body: deepAny(`"value":`, `,"@type":"x/google.protobuf.Any"`, 98, ""), want: deepAny(`"@type":"x/google.protobuf.Any","value":`, "", 98, "")},
		{name: "too much Any with the types last", binding: transcode.Binding{Body: "*"}, body: deepAny(`"value":`, `,"\u0040type":"x/google.protobuf.Any"`, 98, strings.Repeat(" ", 1<<20)), field: "any.value.value.value.value.value", reason: "too much Any inside Any"},
		{name: "Any in Any", binding: transcode.Binding{Body: "*"}, body: `{"any":{"@type":"x/google.protobuf.Any","value":{"@type":"x/google.protobuf.Duration","value":"1s"}}}`, want: `{"any":{"@type":"x/google.protobuf.Any","value":{"@type":"x/google.protobuf.Duration","value":"1s"}}}`},
		{name: "deep but not too deep", binding: transcode.Binding{Body: "*"}, body: strings.Repeat(`{"sub":`, 99) + `{}` + strings.Repeat(`}`, 99), want: strings.Repeat(`{"sub":`, 99) + `{}` + strings.Repeat(`}`, 99)},
		{name: "proto name clashes with JSON name", method: "everything.Service.EchoClashing", binding: transcode.Binding{Body: "*"}, body: `{"bar":1,"baz":2}`, want: `{"bar":1,"baz":2}`},
		{name: "proto name clashes with JSON name in the query", method: "everything.Service.EchoClashing", query: "foo=1&bar=2", want: `{"bar":1,"baz":2}`},
		{name: "two fields of one JSON name", method: twins, binding: transcode.Binding{Body: "*"}, body: `{"fooBar":1,"other":2}`, want: `{"fooBar":1,"other":2}`},
		{name: "two fields of one JSON name by their proto names", method: twins, binding: transcode.Binding{Body: "*"}, body: `{"foo_bar":1,"fooBar":"x"}`, field: "fooBar", reason: "given more than once"},
		{name: "two fields of one JSON name in the query", method: twins, query: "foo_bar=1&other=2", want: `{"fooBar":1,"other":2}`},

		// Bodies of one field.
		{name: "body is a message field", binding: transcode.Binding{Body: "sub"}, body: `{"stringValue":"x"}`, want: `{"sub":{"stringValue":"x"}}`},
		{name: "body is a field inside", binding: transcode.Binding{Body: "sub.other_sub"}, body: `{"stringValue":"x"}`, want: `{"sub":{"otherSub":{"stringValue":"x"}}}`},
		{name: "body is a scalar", binding: transcode.Binding{Body: "int64_value"}, body: ` "9007199254740993" `, want: `{"int64Value":"9007199254740993"}`},
		{name: "body is a string", binding: transcode.Binding{Body: "string_value"}, body: `"a\u00e4"`, want: `{"stringValue":"aä"}`},
		{name: "body is a list", binding: transcode.Binding{Body: "smalls"}, body: `[{"id":1},{"id":2}]`, want: `{"smalls":[{"id":"1"},{"id":"2"}]}`},
		{name: "body is a map", binding: transcode.Binding{Body: "labels"}, body: `{"a":"b"}`, want: `{"labels":{"a":"b"}}`},
		{name: "body is a timestamp", binding: transcode.Binding{Body: "time"}, body: `"2020-01-02T03:04:05Z"`, want: `{"time":"2020-01-02T03:04:05Z"}`},
		{name: "a scalar body cannot name further fields", binding: transcode.Binding{Body: "int32_value"}, body: `1,"stringValue":"x"`, field: "int32_value", reason: "unexpected ,"},
		{name: "a list body cannot name further fields", binding: transcode.Binding{Body: "strings"}, body: `[],"stringValue":"x"`, field: "strings", reason: "unexpected ,"},
		{name: "empty body leaves the field unset", binding: transcode.Binding{Body: "sub"}, want: `{}`},
		{name: "null for a message field", binding: transcode.Binding{Body: "sub"}, body: `null`, field: "sub", reason: "unexpected null"},
		{name: "null for a list", binding: transcode.Binding{Body: "strings"}, body: `null`, want: `{}`},
		{name: "error inside a field's body", binding: transcode.Binding{Body: "sub"}, body: `{"ints":[1,2,"x"]}`, field: "sub.ints[2]", reason: "not a valid int32"},
		{name: "error inside a list's body", binding: transcode.Binding{Body: "ints"}, body: `[1,2,"x"]`, field: "ints[2]", reason: "not a valid int32"},
		{name: "no body bound, one sent", body: `{"stringValue":"x"}`, want: `{}`},

		// Path variables.
		{name: "path wins over the body", binding: transcode.Binding{Body: "*", Vars: []string{"string_value"}}, body: `{"stringValue":"B","int32Value":1}`, vars: []string{"A"}, want: `{"stringValue":"A","int32Value":1}`},
		{name: "path's zero wins over the body", binding: transcode.Binding{Body: "*", Vars: []string{"int32_value"}}, body: `{"int32Value":5}`, vars: []string{"0"}, want: `{}`},
		{name: "path merges into the body's message", binding: transcode.Binding{Body: "*", Vars: []string{"sub.int64_value"}}, body: `{"sub":{"stringValue":"s","int64Value":1}}`, vars: []string{"-2"}, want: `{"sub":{"stringValue":"s","int64Value":"-2"}}`},
		{name: "path list replaces the body's", binding: transcode.Binding{Body: "*", Vars: []string{"strings"}}, body: `{"strings":["x","y"],"boolValue":true}`, vars: []string{"a,b"}, want: `{"strings":["a","b"],"boolValue":true}`},
		{name: "path timestamp replaces the body's", binding: transcode.Binding{Body: "*", Vars: []string{"time"}}, body: `{"time":"2020-01-01T00:00:00.5Z"}`, vars: []string{"2021-01-01T00:00:00Z"}, want: `{"time":"2021-01-01T00:00:00Z"}`},
		{name: "path wrapper replaces the body's", binding: transcode.Binding{Body: "*", Vars: []string{"int32_wrapper"}}, body: `{"int32Wrapper":7}`, vars: []string{"0"}, want: `{"int32Wrapper":0}`},
		{name: "path mask replaces the body's", binding: transcode.Binding{Body: "*", Vars: []string{"mask"}}, body: `{"mask":"a,b"}`, vars: []string{"c"}, want: `{"mask":"c"}`},
		{name: "path list inside the body's message", binding: transcode.Binding{Body: "sub", Vars: []string{"sub.strings"}}, body: `{"strings":["x"],"int32Value":1}`, vars: []string{"a"}, want: `{"sub":{"strings":["a"],"int32Value":1}}`},
		{name: "path and body set one oneof", binding: transcode.Binding{Body: "*", Vars: []string{"choice_int"}}, body: `{"choiceString":"x"}`, vars: []string{"1"}, field: "choice_int", reason: "the body sets another member of oneof choice"},
		{name: "path and body set one oneof inside", binding: transcode.Binding{Body: "*", Vars: []string{"choice_small.b"}}, body: `{"choiceSmall":{"a":"x"}}`, vars: []string{"1"}, field: "choice_small.b", reason: "the body sets another member of oneof kind"},
		{name: "path and body set the same member", binding: transcode.Binding{Body: "*", Vars: []string{"choice_int"}}, body: `{"choiceInt":5}`, vars: []string{"0"}, want: `{"choiceInt":0}`},
		{name: "path enum by name", binding: transcode.Binding{Vars: []string{"color"}}, vars: []string{"GREEN"}, want: `{"color":"GREEN"}`},
		{name: "path enum by number", binding: transcode.Binding{Vars: []string{"color"}}, vars: []string{"-1"}, want: `{"color":"BELOW"}`},
		{name: "path value is bad", binding: transcode.Binding{Vars: []string{"sub.int32_value"}}, vars: []string{"A"}, field: "sub.int32_value", reason: "not a valid int32"},
		{name: "path value is missing", binding: transcode.Binding{Vars: []string{"string_value"}}, field: "string_value", reason: "missing"},
		{name: "path value is not UTF-8", binding: transcode.Binding{Vars: []string{"string_value"}}, vars: []string{"\xff"}, field: "string_value", reason: "not valid UTF-8"},
		{name: "slash and percent in a path value", binding: transcode.Binding{Vars: []string{"string_value"}}, vars: []string{"a/b%23"}, want: `{"stringValue":"a/b%23"}`},

		// The query against path and body.
		{name: "query cannot set what the path binds", binding: transcode.Binding{Vars: []string{"string_value"}}, query: "stringValue=B&string_value=C&int32Value=1", vars: []string{"A"}, want: `{"stringValue":"A","int32Value":1}`},
		{name: "query cannot set around what the path binds", binding: transcode.Binding{Vars: []string{"time.seconds"}}, query: "time=2020-01-01T00:00:00Z", vars: []string{"1"}, want: `{"time":"1970-01-01T00:00:01Z"}`},
		{name: "query sets beside what the path binds", binding: transcode.Binding{Vars: []string{"sub.string_value"}}, query: "sub.int32_value=3&sub.stringValue=B", vars: []string{"A"}, want: `{"sub":{"stringValue":"A","int32Value":3}}`},
		{name: "query is ignored beside a whole body", binding: transcode.Binding{Body: "*"}, query: "string_value=x&nope=1&%zz", want: `{}`},
		{name: "query beside a whole body refused", binding: transcode.Binding{Body: "*"}, strict: true, query: "&nope=1", reason: "no query parameters are known"},
		{name: "no query beside a whole body", binding: transcode.Binding{Body: "*"}, strict: true, query: "&", want: `{}`},
		{name: "query cannot set what lies in the body", binding: transcode.Binding{Body: "sub"}, body: `{"stringValue":"x"}`, query: "sub.stringValue=y&sub.sub.int32Value=1&sub.nope=2&int32Value=3", strict: true, want: `{"sub":{"stringValue":"x"},"int32Value":3}`},
		{name: "query and path set one oneof", binding: transcode.Binding{Vars: []string{"choice_int"}}, query: "choiceString=x", vars: []string{"1"}, field: "choiceString", reason: "another member of oneof choice is set already"},
		{name: "query and body set one oneof", binding: transcode.Binding{Body: "choice_small"}, body: `{}`, query: "choice_int=1", field: "choice_int", reason: "another member of oneof choice is set already"},
		{name: "query sets the oneof that an empty body leaves", binding: transcode.Binding{Body: "choice_small"}, query: "choice_int=1", want: `{"choiceInt":1}`},

		// Required fields may come from anywhere.
		{name: "required from the path", method: legacy, binding: transcode.Binding{Body: "*", Vars: []string{"id"}}, body: `{"name":"x"}`, vars: []string{"1"}, want: `{"id":1,"name":"x"}`},
		{name: "required is missing", method: legacy, binding: transcode.Binding{Body: "*"}, body: `{"name":"x"}`, field: "id", reason: "required"},
		{name: "required is missing inside", method: legacy, binding: transcode.Binding{Body: "*"}, body: `{"id":1,"subs":[{"id":2},{}]}`, field: "subs[1].id", reason: "required"},
		{name: "required is missing in a group", method: legacy, binding: transcode.Binding{Body: "*"}, body: `{"id":1,"Inner":{"text":"x"}}`, field: "Inner.yes", reason: "required"},
		{name: "required from body and path, in pieces", method: legacy, binding: transcode.Binding{Body: "Inner", Vars: []string{"id", "Inner.yes"}}, body: `{"text":"x"}`, vars: []string{"1", "true"}, want: `{"id":1,"Inner":{"text":"x","yes":true}}`},
		{name: "required is missing in a map's list", method: legacy, binding: transcode.Binding{Body: "*"}, body: `{"id":1,"byName":{"a":{"id":1},"b":{"id":2,"subs":[{}]}}}`, field: "by_name.subs[0].id", reason: "required"},
		{name: "required is missing in a map", method: legacy, binding: transcode.Binding{Body: "*"}, body: `{"id":1,"byName":{"a":{"name":"x"}}}`, field: "by_name.id", reason: "required"},
		{name: "required is missing in an extension", method: legacy, binding: transcode.Binding{Body: "*"}, body: `{"id":1,"[old.more]":{}}`, field: "[old.more].id", reason: "required"},
		{name: "required is not looked for in Any", method: legacy, binding: transcode.Binding{Body: "*"}, body: `{"id":1,"any":{"@type":"t/old.Legacy"}}`, want: `{"id":1,"any":{"@type":"t/old.Legacy"}}`},
		{name: "group and extension", method: legacy, binding: transcode.Binding{Body: "*"}, body: `{"id":1,"Inner":{"yes":true},"[old.extra]":"e"}`, want: `{"id":1,"Inner":{"yes":true},"[old.extra]":"e"}`},
		{name: "group from the query", method: legacy, query: "id=1&Inner.yes=true&Inner.text=t", want: `{"id":1,"Inner":{"yes":true,"text":"t"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = echo
			}
			m := compile(t, tt.method, tt.binding, config.JSON{EmitDefaults: true, DiscardUnknown: !tt.strict})
			got, err := m.AppendRequest([]byte("before"), transcode.Input{Body: []byte(tt.body), Query: tt.query, Vars: tt.vars})
			checkRequest(t, tt.method, got, err, tt.want, tt.field, tt.reason)
		})
	}
}

// TestErrorText: an error names the path and the byte.
func TestErrorText(t *testing.T) {
	order := "everything.Service.EchoOrder"
	for _, tt := range []struct {
		body string
		want string
	}{
		{`{"items":[{},{"price":"x"}]}`, "items[1].price: not a valid double (at byte 22)"},
		{`{"labels":{"a b":1}}`, "labels.a b: not a valid string (at byte 17)"},
		{`{"items":[{},]}`, "items: unexpected ] (at byte 13)"},
		{`{"items":[{}`, "items[0]: the JSON ends too early (at byte 12)"},
		{`{"note":"ab` + "\xff" + `"}`, "note: not valid UTF-8 (at byte 11)"},
		{`{"note":"\ud800"}`, "note: malformed escape in a string (at byte 9)"},
		{`{"note":}`, "note: unexpected } (at byte 8)"},
		{`{"note" 1}`, `note: malformed JSON: missing ":" after a name (at byte 8)`},
		{`{"shipTo":{"city":true}}`, "shipTo.city: not a valid string (at byte 18)"},
		{`{"status":"NOPE"}`, "status: not a value of enum everything.Order.Status (at byte 10)"},
		{`{"created":"now"}`, "created: not a valid google.protobuf.Timestamp (at byte 11)"},
		{`{"no\u0070e":1}`, "nope: no such field (at byte 1)"},
		{`{"id":1,"note":"","id":2}`, "id: given more than once (at byte 18)"},
		{`{"paid":True}`, "paid: not a valid bool (at byte 8)"},
		{`{"id":01}`, "id: unexpected number (at byte 7)"},
		{`{"id":1.}`, "id: malformed JSON (at byte 6)"},
		{`nope`, "request body: malformed JSON (at byte 0)"},
		{`{} {}`, "request body: unexpected object (at byte 3)"},
		{`{a:1}`, "request body: malformed JSON (at byte 1)"},
		{`{"total":1e400}`, "total: not a valid double (at byte 9)"},
	} {
		m := compile(t, protoreflect.FullName(order), transcode.Binding{Body: "*"}, config.JSON{})
		_, err := m.AppendRequest(nil, transcode.Input{Body: []byte(tt.body)})
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s:\n got  %v\n want %s", tt.body, err, tt.want)
		}
	}
}

// TestLongBodies: lengths of any size, one inside the other, and after one another.
func TestLongBodies(t *testing.T) {
	m := compile(t, echo, transcode.Binding{Body: "*"}, defaults)
	for _, n := range []int{100, 118, 125, 126, 127, 128, 16<<10 - 30, 16<<10 - 4, 16<<10 - 3, 16<<10 - 2, 16<<10 - 1, 16 << 10, 16<<10 + 1, 40 << 10, 1<<21 - 3, 1 << 21} {
		text := `"` + strings.Repeat("x", n) + `"`
		body := strings.ReplaceAll(`{"stringValue":T,"sub":{"smalls":[{"name":T},{"name":"a"},{"name":T,"tags":[T,"b",T]}],"labels":{"k":T,T:"v"},"sub":{"sub":{"stringValue":T},"int32Value":1},`+
			`"struct":{"a":[T,{"b":T,"c":1}],"d":[[[[[1,2]]]]]}},"byUlong":{"1":{"name":T},"2":{}},"any":{"@type":"t/everything.Everything","sub":{"stringValue":T},"boolValue":true},"int32Value":7}`, "T", text)
		compareBodies(t, echo, m, true, []byte(body))
	}
}

// leastAllocs is how many allocations a call of f makes that finds its scratch
// space: the race detector has a sync.Pool lose what is put back, now and then.
func leastAllocs(f func()) float64 {
	least := testing.AllocsPerRun(1, f)
	for i := 0; i < 100 && least > 0; i++ {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

// TestNoAllocations: reading a body takes no more memory than the message it makes.
func TestNoAllocations(t *testing.T) {
	body := compile(t, echo, transcode.Binding{Body: "*"}, defaults)
	for _, text := range bodies[:11] { // the valid ones
		in := transcode.Input{Body: []byte(text)}
		buf, err := body.AppendRequest(nil, in)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if n := leastAllocs(func() { buf, _ = body.AppendRequest(buf[:0], in) }); n > 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
	old := compile(t, legacy, transcode.Binding{Body: "*"}, defaults)
	in := []byte(`{"Inner":{"yes":true},"[old.extra]":"e","kind":"FIRST","numbers":["1e0"],"any":{"n\u0061me":"x","@type":"t/old.Legacy"}}`)
	buf, err := old.ReadBody(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	if n := leastAllocs(func() { buf, _ = old.ReadBody(buf[:0], in) }); n > 0 {
		t.Errorf("%s: %v allocations", in, n)
	}
}

// TestManyFields: messages larger than any word or two of bits.
func TestManyFields(t *testing.T) {
	const n = 700
	fdp := &descriptorpb.FileDescriptorProto{
		Name: proto.String("many.proto"), Package: proto.String("many"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("M"), InputType: proto.String(".many.M"), OutputType: proto.String(".many.M")},
		}}},
	}
	md := fdp.MessageType[0]
	var object, twice strings.Builder
	for i := range n {
		name := fmt.Sprintf("f%d", i)
		field := &descriptorpb.FieldDescriptorProto{
			Name: &name, JsonName: &name, Number: proto.Int32(int32(i + 1)),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(),
		}
		if i >= n/2 {
			// Oneofs of two fields each.
			field.OneofIndex = proto.Int32(int32(i-n/2) / 2)
			if i%2 == 0 {
				md.OneofDecl = append(md.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("o" + name)})
			}
		}
		md.Field = append(md.Field, field)
		if i < n/2 || i%2 == 0 {
			fmt.Fprintf(&object, `,"%s":%d`, name, i)
		}
		fmt.Fprintf(&twice, `,"%s":%d`, name, i)
	}
	file, err := protodesc.NewFile(fdp, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := transcode.Compile(file.Services().Get(0).Methods().Get(0), transcode.Binding{Body: "*"}, config.JSON{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte("{" + object.String()[1:] + "}")
	got, err := m.AppendRequest(nil, transcode.Input{Body: body})
	if err != nil {
		t.Fatal(err)
	}
	wantMessage(t, file.Messages().Get(0), got, string(body))
	for _, bad := range []string{`{"f699":1,"f699":1}`, "{" + twice.String()[1:] + "}"} {
		if _, err := m.AppendRequest(nil, transcode.Input{Body: []byte(bad)}); err == nil {
			t.Errorf("taken: %.100s", bad)
		}
	}
}

// deepAny is a message with Any in Any, n deep, with what stands before and after
// the next one, and inside the innermost.
func deepAny(before, after string, n int, inside string) string {
	return `{"any":` + strings.Repeat("{"+before, n) + "{" + inside + "}" + strings.Repeat(after+"}", n) + "}"
}

// checkRequest compares what became of a request, appended to "before".
func checkRequest(t *testing.T, method protoreflect.FullName, got []byte, err error, want, field, reason string) {
	t.Helper()
	rest, ok := strings.CutPrefix(string(got), "before")
	if !ok {
		t.Fatalf("what was before is gone: %q", got)
	}
	if want == "" {
		var bad *transcode.Error
		if !errors.As(err, &bad) {
			t.Fatalf("err = %v, want an *Error", err)
		}
		if rest != "" {
			t.Errorf("appended %q beside the error", rest)
		}
		if bad.Field != field || !strings.Contains(bad.Reason, reason) {
			t.Errorf("error is %q: %q, want %q: …%q…", bad.Field, bad.Reason, field, reason)
		}
		return
	}
	if err != nil {
		t.Fatalf("err = %v (%v), want %s", err, errors.Unwrap(err), want)
	}
	if msg := decode(t, method, []byte(rest)); !proto.Equal(msg, parse(t, method, want)) {
		t.Errorf("got  %s\nwant %s", show(msg), want)
	}
}

// TestLongNames: a type's or extension's name that is as long as the body is takes no more than a moment, though
// resolvers look for what each beginning of it names.
func TestLongNames(t *testing.T) {
	m := compile(t, corner, transcode.Binding{Body: "*"}, config.JSON{})
	name := strings.Repeat("a.", 1<<20) + "a"
	for _, tt := range []struct{ body, want string }{
		{`{"any":{"@type":"/` + name + `"}}`, "any.@type: the type is not known (at byte 16)"},
		{`{"[` + name + `]":1}`, "[" + name[:127] + "…: no such field (at byte 1)"},
	} {
		begun := time.Now()
		_, err := m.AppendRequest(nil, transcode.Input{Body: []byte(tt.body)})
		if err == nil || err.Error() != tt.want {
			t.Errorf("err = %v, want %s", err, tt.want)
		}
		if took := time.Since(begun); took > 10*time.Second { // some ms; the race detector and busy machines may take more
			t.Errorf("%v for %d bytes", took, len(tt.body))
		}
	}
	detail := &anypb.Any{TypeUrl: "x/" + name}
	begun := time.Now()
	if got := transcode.AppendDetail(nil, detail, testSchema().types); !strings.HasSuffix(string(got), `"value":""}`) {
		t.Errorf("got …%s", got[len(got)-20:])
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("%v for a detail's type", took)
	}
}

// A malformed body must cost no more than reading it: not the building of a
// message as large as what comes before the fault.
func TestMalformedBodiesAreCheap(t *testing.T) {
	m := compile(t, echo, transcode.Binding{Body: "*"}, defaults)
	for _, tt := range []struct {
		body, want string
		most       int // in bytes, for each of the body's
	}{
		{`{"smalls":[` + strings.Repeat(`{},`, 1<<20) + "\n}]}", "smalls[1048576]: unexpected } (at byte 3145740)", 10},
		{`{` + strings.Repeat(`"x":1,`, 1<<19) + `"int32Value":"a"}`, "int32Value: not a valid int32 (at byte 3145742)", 1},
	} {
		in := transcode.Input{Body: []byte(tt.body)}
		if _, err := m.AppendRequest(nil, in); err == nil || err.Error() != tt.want {
			t.Errorf("err = %v, want %s", err, tt.want)
		}
		result := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				_, _ = m.AppendRequest(nil, in)
			}
		})
		if got := result.AllocedBytesPerOp(); got > int64(tt.most*len(tt.body)) {
			t.Errorf("a body of %d bytes takes %d", len(tt.body), got)
		}
	}
}
