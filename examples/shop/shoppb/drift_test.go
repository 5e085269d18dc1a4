package shoppb

import (
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// The generated code holds the descriptors it was generated from; they must be
// those of the .proto files as they are now.
func TestGeneratedCodeIsUpToDate(t *testing.T) {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{
			&protocompile.SourceResolver{ImportPaths: []string{"../proto"}},
			protocompile.ResolverFunc(func(name string) (protocompile.SearchResult, error) {
				fd, err := protoregistry.GlobalFiles.FindFileByPath(name)
				return protocompile.SearchResult{Desc: fd}, err
			}),
		}),
	}
	for _, generated := range []protoreflect.FileDescriptor{File_shop_user_proto, File_shop_order_proto} {
		t.Run(generated.Path(), func(t *testing.T) {
			files, err := compiler.Compile(t.Context(), generated.Path())
			if err != nil {
				t.Fatal(err)
			}
			want := protoutil.ProtoFromFileDescriptor(files[0])
			got := protodesc.ToFileDescriptorProto(generated)
			if !proto.Equal(canonical(t, want), canonical(t, got)) {
				t.Errorf("the Go code is not what %s says: run `make generate`", generated.Path())
			}
		})
	}
}

// canonical resolves what the two roads to a descriptor may leave different:
// options as unknown fields or as extensions.
func canonical(t *testing.T, m proto.Message) proto.Message {
	t.Helper()
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	c := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(wire, c); err != nil {
		t.Fatal(err)
	}
	return c
}
