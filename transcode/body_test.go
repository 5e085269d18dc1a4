package transcode_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// uploads is a service of raw bodies.
var uploads = sync.OnceValue(func() protoreflect.ServiceDescriptor {
	// The import also links the type that the file depends on.
	dependency := (*httpbody.HttpBody)(nil).ProtoReflect().Descriptor().ParentFile().Path()
	text := `
		name: "uploads.proto" syntax: "proto2" package: "uploads" dependency: "` + dependency + `"
		message_type { name: "Upload"
			field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "name" }
			field { name: "body" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.api.HttpBody" json_name: "body" }
			field { name: "inner" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".uploads.Upload" json_name: "inner" }
			field { name: "group" number: 4 label: LABEL_OPTIONAL type: TYPE_GROUP type_name: ".uploads.Upload.Group" json_name: "group" }
			nested_type { name: "Group"
				field { name: "body" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.api.HttpBody" json_name: "body" } } }
		service { name: "Service"
			method { name: "Field" input_type: ".uploads.Upload" output_type: ".uploads.Upload" }
			method { name: "Whole" input_type: ".google.api.HttpBody" output_type: ".google.api.HttpBody" } }`
	fdp := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(text), fdp); err != nil {
		panic(err)
	}
	file, err := protodesc.NewFile(fdp, protoregistry.GlobalFiles)
	if err != nil {
		panic(err)
	}
	return file.Services().Get(0)
})

func compileUpload(t *testing.T, method protoreflect.Name, b transcode.Binding) (*transcode.Method, protoreflect.MessageDescriptor) {
	t.Helper()
	md := uploads().Methods().ByName(method)
	m, err := transcode.Compile(md, b, defaults, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m, md.Input()
}

// wantMessage compares a message with how it looks as JSON.
func wantMessage(t *testing.T, md protoreflect.MessageDescriptor, wire []byte, want string) {
	t.Helper()
	got, w := dynamicpb.NewMessage(md), dynamicpb.NewMessage(md)
	if err := proto.Unmarshal(wire, got); err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal([]byte(want), w); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, w) {
		t.Errorf("got  %s\nwant %s", show(got), want)
	}
}

func TestRawBody(t *testing.T) {
	raw := transcode.Input{Body: []byte(" \xff{"), ContentType: "image/png"}
	tests := []struct {
		name    string
		method  protoreflect.Name
		binding transcode.Binding
		in      transcode.Input
		want    string
	}{
		{"whole", "Whole", transcode.Binding{Body: "*"}, raw, `{"contentType":"image/png","data":"IP97"}`},
		{"field", "Field", transcode.Binding{Body: "body"}, raw, `{"body":{"contentType":"image/png","data":"IP97"}}`},
		{"field inside", "Field", transcode.Binding{Body: "inner.inner.body"}, raw, `{"inner":{"inner":{"body":{"contentType":"image/png","data":"IP97"}}}}`},
		{"field inside a group", "Field", transcode.Binding{Body: "inner.group.body"}, raw, `{"inner":{"group":{"body":{"contentType":"image/png","data":"IP97"}}}}`},
		{"with path and query", "Field", transcode.Binding{Body: "body", Vars: []string{"name"}}, transcode.Input{Body: []byte("x"), Query: "inner.name=q&body.data=AQ", Vars: []string{"v"}}, `{"name":"v","body":{"data":"eA=="},"inner":{"name":"q"}}`},
		{"path inside the body", "Field", transcode.Binding{Body: "body", Vars: []string{"body.content_type"}}, transcode.Input{Body: []byte("x"), ContentType: "a/b", Vars: []string{"c/d"}}, `{"body":{"contentType":"c/d","data":"eA=="}}`},
		{"white space is data", "Whole", transcode.Binding{Body: "*"}, transcode.Input{Body: []byte(" ")}, `{"data":"IA=="}`},
		{"nothing", "Field", transcode.Binding{Body: "body"}, transcode.Input{}, `{}`},
		{"no data", "Field", transcode.Binding{Body: "body"}, transcode.Input{ContentType: "text/plain"}, `{"body":{"contentType":"text/plain"}}`},
		{"no form", "Whole", transcode.Binding{Body: "*"}, transcode.Input{Body: []byte("a=b"), Form: true}, `{"data":"YT1i"}`},
		{"RPC has JSON", "Whole", transcode.Binding{Body: "*", HTTPBodyAsJSON: true}, transcode.Input{Body: []byte(`{"data":"AQ"}`)}, `{"data":"AQ=="}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, md := compileUpload(t, tt.method, tt.binding)
			got, err := m.AppendRequest([]byte("before"), tt.in)
			if err != nil || !bytes.HasPrefix(got, []byte("before")) {
				t.Fatalf("got %q, err = %v", got, err)
			}
			wantMessage(t, md, got[len("before"):], tt.want)
		})
	}
	t.Run("large data needs little more room than it takes", func(t *testing.T) {
		m, _ := compileUpload(t, "Field", transcode.Binding{Body: "inner.body"})
		data := bytes.Repeat([]byte{1}, 1<<20)
		dst := make([]byte, 0, len(data)+64)
		got, err := m.AppendRequest(dst, transcode.Input{Body: data, ContentType: "a/b"})
		if err != nil || &got[0] != &dst[:1][0] {
			t.Errorf("moved to where there is more room; err = %v", err)
		}
	})
	t.Run("content type that is no text", func(t *testing.T) {
		m, _ := compileUpload(t, "Whole", transcode.Binding{Body: "*"})
		_, err := m.AppendRequest(nil, transcode.Input{ContentType: "\xff"})
		checkPublic(t, nil, err)
		if err == nil {
			t.Error("taken")
		}
	})
}

func TestRequestBody(t *testing.T) {
	for _, tt := range []struct {
		method  protoreflect.Name
		binding transcode.Binding
		want    transcode.BodyKind
	}{
		{"Whole", transcode.Binding{}, transcode.NoBody},
		{"Whole", transcode.Binding{Body: "*"}, transcode.RawBody},
		{"Whole", transcode.Binding{Body: "*", HTTPBodyAsJSON: true}, transcode.JSONBody},
		{"Whole", transcode.Binding{Body: "data"}, transcode.JSONBody},
		{"Field", transcode.Binding{Body: "*"}, transcode.JSONBody},
		{"Field", transcode.Binding{Body: "body"}, transcode.RawBody},
		{"Field", transcode.Binding{Body: "inner"}, transcode.JSONBody},
	} {
		if m, _ := compileUpload(t, tt.method, tt.binding); m.RequestBody() != tt.want {
			t.Errorf("%s %+v: %v, want %v", tt.method, tt.binding, m.RequestBody(), tt.want)
		}
	}
}

func TestAppendChunk(t *testing.T) {
	for _, tt := range []struct {
		method  protoreflect.Name
		binding transcode.Binding
		want    string
	}{
		{"Whole", transcode.Binding{Body: "*"}, `{"data":"AQI="}`},
		{"Field", transcode.Binding{Body: "body", Vars: []string{"name"}}, `{"body":{"data":"AQI="}}`},
		{"Field", transcode.Binding{Body: "group.body"}, `{"group":{"body":{"data":"AQI="}}}`},
	} {
		m, md := compileUpload(t, tt.method, tt.binding)
		got, err := m.AppendChunk([]byte("before"), []byte{1, 2})
		if err != nil || !bytes.HasPrefix(got, []byte("before")) {
			t.Fatalf("got %q, err = %v", got, err)
		}
		wantMessage(t, md, got[len("before"):], tt.want)
	}
	m, _ := compileUpload(t, "Field", transcode.Binding{Body: "inner"})
	if got, err := m.AppendChunk([]byte("before"), []byte{1}); err == nil || string(got) != "before" {
		t.Errorf("a chunk of JSON: %q, err = %v", got, err)
	}
}

func TestForm(t *testing.T) {
	tests := []struct {
		name    string
		binding transcode.Binding
		strict  bool
		form    string
		query   string
		vars    []string
		want    string
		field   string
		reason  string
	}{
		{name: "whole", binding: transcode.Binding{Body: "*"}, form: "string_value=a+b&ints=1&ints=2&labels[a]=%C3%A4&sub.boolValue=1", want: `{"stringValue":"a b","ints":[1,2],"labels":{"a":"ä"},"sub":{"boolValue":true}}`},
		{name: "below the body", binding: transcode.Binding{Body: "sub.other_sub"}, form: "string_value=a&sub.boolValue=1", want: `{"sub":{"otherSub":{"stringValue":"a","sub":{"boolValue":true}}}}`},
		{name: "query beside", binding: transcode.Binding{Body: "sub"}, form: "string_value=a", query: "string_value=b&sub.int32_value=1", want: `{"stringValue":"b","sub":{"stringValue":"a"}}`},
		{name: "path binds", binding: transcode.Binding{Body: "*", Vars: []string{"string_value", "sub.ints"}}, form: "string_value=a&sub.ints=1&sub.color=RED", vars: []string{"p", "7"}, want: `{"stringValue":"p","sub":{"ints":[7],"color":"RED"}}`},
		{name: "path binds below the body", binding: transcode.Binding{Body: "sub", Vars: []string{"sub.string_value"}}, form: "string_value=a&int32_value=1", vars: []string{"p"}, want: `{"sub":{"stringValue":"p","int32Value":1}}`},
		{name: "nothing in it sets the body", binding: transcode.Binding{Body: "sub"}, form: "nope=1", want: `{"sub":{}}`},
		{name: "empty", binding: transcode.Binding{Body: "sub"}, want: `{}`},
		{name: "unknown refused", binding: transcode.Binding{Body: "sub"}, strict: true, form: "nope=1", field: "nope", reason: "no such form field"},
		{name: "bad value", binding: transcode.Binding{Body: "sub"}, form: "int32_value=x", field: "int32_value", reason: "not a valid int32"},
		{name: "scalar body", binding: transcode.Binding{Body: "string_value"}, form: "a=b", field: "string_value", reason: "cannot be a form"},
		{name: "list body", binding: transcode.Binding{Body: "smalls"}, form: "id=1", field: "smalls", reason: "cannot be a form"},
		{name: "oneof of path and form", binding: transcode.Binding{Body: "*", Vars: []string{"choice_int"}}, form: "choice_string=a", vars: []string{"1"}, field: "choice_string", reason: "another member of oneof choice"},
		{name: "bad percent-encoding", binding: transcode.Binding{Body: "*"}, form: "a=%z", field: "a", reason: "malformed percent-encoding in a form field"},
		{name: "too many", binding: transcode.Binding{Body: "*"}, form: strings.Repeat("nope&", 10001), reason: "too many form fields"},
		{name: "no body bound", form: "string_value=a", want: `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := compile(t, echo, tt.binding, config.JSON{DiscardUnknown: !tt.strict})
			got, err := m.AppendRequest([]byte("before"), transcode.Input{Form: true, Body: []byte(tt.form), Query: tt.query, Vars: tt.vars})
			checkRequest(t, echo, got, err, tt.want, tt.field, tt.reason)
		})
	}
}
