package transcode

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rpcgate/rpcgate/config"
)

// anyMethod takes and gives an Any.
type anyMethod struct{ protoreflect.MethodDescriptor }

func (anyMethod) Input() protoreflect.MessageDescriptor {
	return (*anypb.Any)(nil).ProtoReflect().Descriptor()
}
func (m anyMethod) Output() protoreflect.MessageDescriptor { return m.Input() }
func (anyMethod) FullName() protoreflect.FullName          { return "test.Service.Any" }

func compileAny(t *testing.T) *Method {
	t.Helper()
	m, err := Compile(anyMethod{}, Binding{Body: "*"}, config.JSON{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// anyOf is an Any on the wire; the name is short.
func anyOf(name string) []byte {
	return append([]byte{0x0a, byte(len(name) + 1), '/'}, name...)
}

// TestLookupIsBounded: what a caller or a backend makes up is not remembered.
func TestLookupIsBounded(t *testing.T) {
	m := compileAny(t)
	for i := range 1000 {
		name := fmt.Sprintf("no.such.Type%d", i)
		if _, err := m.AppendResponse(nil, anyOf(name)); err == nil {
			t.Fatalf("%s is shown", name)
		}
		known := fmt.Sprintf("host%d/google.protobuf.Empty", i)
		if _, err := m.AppendResponse(nil, anyOf(known)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(*m.engine.lookup.messages.Load()); n != 1 {
		t.Errorf("%d types are remembered, want the one there is", n)
	}
}
