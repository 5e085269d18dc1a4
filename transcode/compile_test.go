package transcode_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/rpcgate/rpcgate/transcode"
)

func TestCompileFaults(t *testing.T) {
	tests := []struct {
		name    string
		binding transcode.Binding
		want    string
	}{
		{"body without field", transcode.Binding{Body: "nope"}, `everything.Service.Echo: body "nope": message everything.Everything has no field "nope"`},
		{"body inside a list", transcode.Binding{Body: "smalls.id"}, `field "smalls" is not a singular message`},
		{"response body without field", transcode.Binding{ResponseBody: "sub.nope"}, `response_body "sub.nope": message everything.Everything has no field "nope"`},
		{"variable without field", transcode.Binding{Vars: []string{"sub.nope"}}, `variable "sub.nope": message everything.Everything has no field "nope"`},
		{"variable of a map", transcode.Binding{Vars: []string{"labels"}}, `variable "labels": field "labels" is a map`},
		{"variable of a message", transcode.Binding{Vars: []string{"sub"}}, `message everything.Everything cannot be written in a path`},
		{"variable twice", transcode.Binding{Vars: []string{"color", "color"}}, `variable "color": color is bound already`},
		{"variable around another", transcode.Binding{Vars: []string{"time.seconds", "time"}}, `time.seconds is bound already`},
		{"variable in another", transcode.Binding{Vars: []string{"time", "time.seconds"}}, `time, which contains it, is bound already`},
		{"variable is the body", transcode.Binding{Body: "time", Vars: []string{"time"}}, `time is bound already`},
		{"variables of one oneof", transcode.Binding{Vars: []string{"choice_int", "choice_string"}}, `choice_string and choice_int are members of one oneof`},
		{"variable and body of one oneof", transcode.Binding{Body: "choice_small", Vars: []string{"choice_int"}}, `choice_int and choice_small are members of one oneof`},
		{"empty name", transcode.Binding{Vars: []string{""}}, `has no field ""`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := transcode.Compile(method(t, echo), tt.binding, defaults, testSchema().types)
			var fault *transcode.BindingError
			if !errors.As(err, &fault) {
				t.Fatalf("err = %v, want a *BindingError", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want …%s…", err, tt.want)
			}
		})
	}
}

// TestCompileUndefinedType: a descriptor set without all of its imports.
func TestCompileUndefinedType(t *testing.T) {
	text := `
		name: "holes.proto" syntax: "proto3" package: "holes" dependency: "missing.proto"
		message_type { name: "A"
			field { name: "b" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".holes.B" json_name: "b" }
			field { name: "c" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".missing.C" json_name: "c" } }
		message_type { name: "B"
			field { name: "a" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".holes.A" json_name: "a" } }
		message_type { name: "D"
			field { name: "x" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "x" } }
		service { name: "S"
			method { name: "A" input_type: ".holes.A" output_type: ".holes.D" }
			method { name: "B" input_type: ".holes.B" output_type: ".holes.D" }
			method { name: "D" input_type: ".holes.D" output_type: ".holes.D" } }`
	fdp := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(text), fdp); err != nil {
		t.Fatal(err)
	}
	file, err := protodesc.FileOptions{AllowUnresolvable: true}.New(fdp, new(protoregistry.Files))
	if err != nil {
		t.Fatal(err)
	}
	c := transcode.NewCompiler(defaults, nil)
	methods := file.Services().Get(0).Methods()
	// B, which was planned on the way to A's failure, must not be found half-built.
	for _, name := range []protoreflect.Name{"A", "B"} {
		_, err := c.Compile(methods.ByName(name), transcode.Binding{Body: "*"})
		if want := "request message: message missing.C is not defined"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v, want …%s…", name, err, want)
		}
	}
	if _, err := c.Compile(methods.ByName("D"), transcode.Binding{Body: "*"}); err != nil {
		t.Errorf("D: %v", err)
	}
}

// TestCompileUnfitTypes: protojson falls over a message that only carries a
// well-known type's name, and over names that are no text.
func TestCompileUnfitTypes(t *testing.T) {
	const label = "label: LABEL_OPTIONAL "
	for _, tt := range []struct{ input, messages, want string }{
		{"Timestamp", `message_type { name: "Timestamp" field { name: "seconds" number: 1 ` + label + `type: TYPE_STRING json_name: "seconds" } }`,
			"message google.protobuf.Timestamp is not the well-known type of that name"},
		{"Value", `message_type { name: "Other" } enum_type { name: "NullValue" value { name: "NULL_VALUE" number: 0 } }
			message_type { name: "Value" oneof_decl { name: "kind" }
				field { name: "null_value" number: 1 oneof_index: 0 ` + label + `type: TYPE_ENUM type_name: ".google.protobuf.NullValue" json_name: "nullValue" }
				field { name: "number_value" number: 2 oneof_index: 0 ` + label + `type: TYPE_DOUBLE json_name: "numberValue" }
				field { name: "string_value" number: 3 oneof_index: 0 ` + label + `type: TYPE_STRING json_name: "stringValue" }
				field { name: "bool_value" number: 4 oneof_index: 0 ` + label + `type: TYPE_BOOL json_name: "boolValue" }
				field { name: "struct_value" number: 5 oneof_index: 0 ` + label + `type: TYPE_MESSAGE type_name: ".google.protobuf.Other" json_name: "structValue" }
				field { name: "list_value" number: 6 oneof_index: 0 ` + label + `type: TYPE_MESSAGE type_name: ".google.protobuf.Other" json_name: "listValue" } }`,
			"message google.protobuf.Value is not the well-known type of that name"},
		{"Named", `message_type { name: "Named" field { name: "a" number: 1 ` + label + `type: TYPE_STRING json_name: "\377" } }`,
			"field google.protobuf.Named.a: its JSON name is not UTF-8"},
	} {
		text := `name: "false.proto" syntax: "proto3" package: "google.protobuf"` + tt.messages +
			`service { name: "S" method { name: "A" input_type: ".google.protobuf.` + tt.input + `" output_type: ".google.protobuf.` + tt.input + `" } }`
		fdp := new(descriptorpb.FileDescriptorProto)
		if err := prototext.Unmarshal([]byte(text), fdp); err != nil {
			t.Fatal(err)
		}
		file, err := protodesc.NewFile(fdp, new(protoregistry.Files))
		if err != nil {
			t.Fatal(err)
		}
		_, err = transcode.Compile(file.Services().Get(0).Methods().Get(0), transcode.Binding{}, defaults, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: err = %v", tt.input, err)
		}
	}
}

// TestBodyOfClashingField: the body is the field that the binding names, also
// where its proto name is another's JSON name, or its JSON name another's too.
func TestBodyOfClashingField(t *testing.T) {
	for _, tt := range []struct {
		method protoreflect.FullName
		field  string
		body   string
		want   string
	}{
		{"everything.Service.EchoClashing", "bar", "1", "\x10\x01"},
		{twins, "foo_bar", "1", "\x08\x01"},
		{twins, "fooBar", `"x"`, "\x12\x01x"},
	} {
		m := compile(t, tt.method, transcode.Binding{Body: tt.field}, defaults)
		got, err := m.AppendRequest(nil, transcode.Input{Body: []byte(tt.body)})
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %q, err = %v, want %q", tt.field, got, err, tt.want)
		}
	}
}

// TestMethodIsConcurrent is for the race detector.
func TestMethodIsConcurrent(t *testing.T) {
	m := compile(t, echo, transcode.Binding{Body: "sub", Vars: []string{"string_value"}}, defaults)
	in := transcode.Input{Body: []byte(bodies[4]), Query: "labels[a]=b&int32_value=1&choice_int=2&nope=1", Vars: []string{"A"}}
	want, err := m.AppendRequest(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	wantJSON, err := m.AppendResponse(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				got, err := m.AppendRequest(nil, in)
				if err != nil || string(got) != string(want) {
					t.Errorf("request % x (%v), want % x", got, err, want)
					return
				}
				gotJSON, err := m.AppendResponse(nil, got)
				if err != nil || string(gotJSON) != string(wantJSON) {
					t.Errorf("response %s (%v), want %s", gotJSON, err, wantJSON)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestLookUpIsConcurrent: types that only bodies and answers name are planned while others are read.
func TestLookUpIsConcurrent(t *testing.T) {
	c := transcode.NewCompiler(defaults, testSchema().types)
	var methods []*transcode.Method
	for _, name := range []protoreflect.FullName{corner, legacy} {
		m, err := c.Compile(method(t, name), transcode.Binding{Body: "*"})
		if err != nil {
			t.Fatal(err)
		}
		methods = append(methods, m)
	}
	bodies := []string{
		`{"any":{"@type":"t/everything.Everything","sub":{"any":{"@type":"t/everything.Order","id":1}}},"[corners.m_longs]":[1],"[corners.corner]":{}}`,
		`{"id":1,"any":{"@type":"t/corners.Corner","[corners.messages]":[{}]},"[old.more]":{"id":2},"[old.extra]":"x"}`,
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				wire, err := methods[i%2].AppendRequest(nil, transcode.Input{Body: []byte(bodies[i%2])})
				if err != nil {
					t.Error(err)
				}
				if _, err := methods[i%2].AppendResponse(nil, wire); err != nil {
					t.Error(err)
				}
			}
		})
	}
	// Others of the backend's methods are compiled meanwhile.
	if _, err := c.Compile(method(t, "everything.Service.EchoOrder"), transcode.Binding{Body: "*"}); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func TestCompilerSharesPlans(t *testing.T) {
	c := transcode.NewCompiler(defaults, testSchema().types)
	for _, name := range []protoreflect.FullName{echo, "everything.Service.EchoSmall", echo} {
		m, err := c.Compile(method(t, name), transcode.Binding{Body: "*"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := m.AppendRequest(nil, transcode.Input{Body: []byte(`{}`)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
