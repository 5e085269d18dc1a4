package transcode_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// schema is the compiled testdata.
type schema struct {
	files *protoregistry.Files
	types *dynamicpb.Types
}

// testSchema is compiled once; the oracle needs its enums in the global registry.
var testSchema = sync.OnceValue(func() schema {
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{"testdata"}})}
	compiled, err := c.Compile(context.Background(), "everything.proto", "old.proto", "corners.proto",
		"conformance/test_messages_proto2.proto", "conformance/test_messages_proto3.proto", "conformance/test_messages_edition2023.proto", "conformance/service.proto")
	if err != nil {
		panic(err)
	}
	files := new(protoregistry.Files)
	for _, f := range compiled {
		// As protobuf-go builds descriptors, which knows more of them than protocompile does.
		fd, err := protodesc.NewFile(protodesc.ToFileDescriptorProto(f), knownFiles{files})
		if err != nil {
			if !strings.Contains(err.Error(), "MessageSet") {
				panic(err)
			}
			fd = f // protobuf-go has no MessageSets any more
		}
		if err := files.RegisterFile(fd); err != nil {
			panic(err)
		}
		for i := range fd.Enums().Len() {
			if err := protoregistry.GlobalTypes.RegisterEnum(dynamicpb.NewEnumType(fd.Enums().Get(i))); err != nil {
				panic(err)
			}
		}
	}
	return schema{files: files, types: dynamicpb.NewTypes(files)}
})

// knownFiles are files that refer to those that are linked into the program.
type knownFiles struct{ *protoregistry.Files }

func (k knownFiles) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if fd, err := k.Files.FindFileByPath(path); err == nil {
		return fd, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (k knownFiles) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := k.Files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// method finds "everything.Service.Echo".
func method(t testing.TB, name protoreflect.FullName) protoreflect.MethodDescriptor {
	t.Helper()
	d, err := testSchema().files.FindDescriptorByName(name)
	if err != nil {
		t.Fatalf("method %s: %v", name, err)
	}
	return d.(protoreflect.MethodDescriptor)
}

const (
	echo   = "everything.Service.Echo"
	legacy = "old.Service.Echo"
	twins  = "old.Service.EchoTwins"
	corner = "corners.Service.Echo"
)

// defaults are config's own.
var defaults = config.JSON{EmitDefaults: true, DiscardUnknown: true}

func compile(t testing.TB, name protoreflect.FullName, b transcode.Binding, o config.JSON) *transcode.Method {
	t.Helper()
	m, err := transcode.Compile(method(t, name), b, o, testSchema().types)
	if err != nil {
		t.Fatalf("Compile(%s, %+v): %v", name, b, err)
	}
	return m
}

// decode reads a method's request message.
func decode(t testing.TB, name protoreflect.FullName, wire []byte) *dynamicpb.Message {
	t.Helper()
	msg := dynamicpb.NewMessage(method(t, name).Input())
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: testSchema().types}).Unmarshal(wire, msg); err != nil {
		t.Fatalf("not a request message: %v\n% x", err, wire)
	}
	return msg
}

// parse reads a method's request message from JSON.
func parse(t testing.TB, name protoreflect.FullName, text string) *dynamicpb.Message {
	t.Helper()
	msg := dynamicpb.NewMessage(method(t, name).Input())
	if err := (protojson.UnmarshalOptions{AllowPartial: true, Resolver: transcode.Linked(testSchema().types)}).Unmarshal([]byte(text), msg); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return msg
}

// show prints a message for failures.
func show(m proto.Message) string {
	b, err := protojson.MarshalOptions{AllowPartial: true, Resolver: transcode.Linked(testSchema().types)}.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
