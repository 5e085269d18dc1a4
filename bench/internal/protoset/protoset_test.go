package protoset_test

import (
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/rpcgate/rpcgate/bench/internal/catalogpb"
	"github.com/rpcgate/rpcgate/bench/internal/protoset"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// TestFiles: each file comes once, though both import annotations.proto, and
// after its imports; the set stands by itself.
func TestFiles(t *testing.T) {
	t.Parallel()
	files := protoset.Files(shoppb.File_shop_user_proto, catalogpb.File_catalog_catalog_proto)
	seen := make(map[string]bool)
	for _, f := range files {
		if seen[f.GetName()] {
			t.Errorf("%s comes twice", f.GetName())
		}
		for _, name := range f.GetDependency() {
			if !seen[name] {
				t.Errorf("%s comes before %s, which it imports", f.GetName(), name)
			}
		}
		seen[f.GetName()] = true
	}
	if _, err := protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: files}); err != nil {
		t.Error(err)
	}
}
