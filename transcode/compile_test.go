package transcode_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

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
