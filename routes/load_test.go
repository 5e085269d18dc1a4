package routes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/rpcgate/rpcgate/config"
)

func TestCompileProto(t *testing.T) {
	d := compileText(t, map[string]string{
		"a.proto":   `syntax = "proto3"; package a; import "dep.proto"; service A { rpc M(dep.X) returns (dep.X); }`,
		"dep.proto": `syntax = "proto3"; package dep; message X {} service NotServed { rpc M(X) returns (X); }`,
	}, "a.proto")
	if got := names(d); !slices.Equal(got, []string{"a.A"}) {
		t.Errorf("serves %v", got)
	}
	if len(d.Warnings()) > 0 {
		t.Error(d.Warnings())
	}
}

func TestCompileProtoErrors(t *testing.T) {
	src := protoSources(t, map[string]string{
		"a.proto": "syntax = \"proto3\";\nmessage A { Missing m = 1; }\nmessage B { Other m = 1; }\n",
		"b.proto": `syntax = "proto3"; import "nowhere.proto";`,
	}, "a.proto", "b.proto", "c.proto")
	_, err := CompileProto(t.Context(), src)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"a.proto:2:13", "Missing", "a.proto:3:13", "Other"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := CompileProto(ctx, src); err == nil {
		t.Error("compiles after the context has ended")
	}
}

func TestLoadProtoset(t *testing.T) {
	whole := shop(t)
	for _, tt := range []struct {
		name    string
		without []string
		warning string
	}{
		{name: "complete"},
		{name: "without what is built in", without: []string{"google/api/annotations.proto", "google/api/http.proto", "google/protobuf/descriptor.proto", "google/protobuf/empty.proto"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := LoadProtoset([]string{protoset(t, filesOf(t, whole, tt.without...)...)})
			if err != nil {
				t.Fatal(err)
			}
			if got := names(d); !slices.Equal(got, []string{"shop.UserService"}) {
				t.Errorf("serves %v", got)
			}
			if len(d.Warnings()) > 0 {
				t.Error(d.Warnings())
			}
			rule, err := httpRule(d.Services()[0].Methods().ByName("GetUser"))
			if err != nil || rule.GetGet() != "/v1/users/{id}" || len(rule.GetAdditionalBindings()) != 1 {
				t.Errorf("annotation: %v, %v", rule, err)
			}
		})
	}
}

func TestLoadProtosetErrors(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("syntax = \"proto3\";"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := LoadProtoset([]string{"no/such/file", garbage, protoset(t)})
	for _, want := range []string{"no/such/file", "garbage is not a FileDescriptorSet", "holds no file descriptors"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	a := &descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), Dependency: []string{"b.proto"}}
	b := &descriptorpb.FileDescriptorProto{Name: proto.String("b.proto"), Dependency: []string{"a.proto"}}
	bad := &descriptorpb.FileDescriptorProto{Name: proto.String("bad.proto"), MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("0")}}}
	_, err = LoadProtoset([]string{protoset(t, a, b, bad)})
	for _, want := range []string{"import cycle", "file bad.proto"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}

func TestMissingImportIsAWarning(t *testing.T) {
	d := compileText(t, map[string]string{
		"a.proto":   `syntax = "proto3"; package a; import "dep.proto"; service A { rpc M(dep.X) returns (Y); rpc N(Y) returns (Y); } message Y {}`,
		"dep.proto": `syntax = "proto3"; package dep; message X {}`,
	}, "a.proto")
	d, err := LoadProtoset([]string{protoset(t, filesOf(t, d, "dep.proto")...)})
	if err != nil {
		t.Fatal(err)
	}
	if w := d.Warnings(); len(w) != 1 || !strings.Contains(w[0], "import dep.proto of file a.proto") {
		t.Errorf("warnings: %q", w)
	}
	m := d.Services()[0].Methods()
	if got := make(completeness).missing(m.ByName("M").Input()); got != "dep.X" {
		t.Errorf("placeholder %q", got)
	}
	if got := make(completeness).missing(m.ByName("N").Input()); got != "" {
		t.Errorf("placeholder %q", got)
	}
}

func TestEqual(t *testing.T) {
	a := shop(t)
	files := filesOf(t, a)
	slices.Reverse(files)
	files[0].SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{{Span: []int32{1, 2, 3}}}}
	same, err := LoadProtoset([]string{protoset(t, files...)})
	if err != nil {
		t.Fatal(err)
	}
	if !a.Equal(same) || a.Fingerprint() != same.Fingerprint() {
		t.Error("order or positions make a difference")
	}
	other := compileText(t, map[string]string{"shop/shop.proto": strings.Replace(shopProto, "/v1/users/{id}", "/v2/users/{id}", 1)}, "shop/shop.proto")
	if a.Equal(other) || other.Fingerprint() == a.Fingerprint() {
		t.Error("an annotation makes no difference")
	}
	if a.Equal(nil) || (*Descriptors)(nil).Equal(a) || !(*Descriptors)(nil).Equal(nil) {
		t.Error("nil")
	}
}

func TestTypes(t *testing.T) {
	types := shop(t).Types()
	for _, url := range []string{"type.googleapis.com/shop.User", "type.googleapis.com/google.rpc.ErrorInfo"} {
		if _, err := types.FindMessageByURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := types.FindMessageByURL("type.googleapis.com/shop.None"); err == nil {
		t.Error("found shop.None")
	}
	if _, err := types.FindExtensionByNumber("google.protobuf.MethodOptions", 72295728); err != nil {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	dialed := errors.New("dialed")
	dial := func(context.Context) (grpc.ClientConnInterface, func(), error) { return nil, nil, dialed }
	b := config.Backend{Name: "shop", Reflection: true}
	if _, err := Load(t.Context(), b, dial); !errors.Is(err, dialed) {
		t.Error(err)
	}
	b = config.Backend{Name: "shop", Protoset: []string{protoset(t, filesOf(t, shop(t))...)}}
	if _, err := Load(t.Context(), b, dial); err != nil {
		t.Error(err)
	}
	src := protoSources(t, map[string]string{"shop.proto": shopProto}, "shop.proto")
	if _, err := Load(t.Context(), config.Backend{Name: "shop", Proto: &src}, dial); err != nil {
		t.Error(err)
	}
	if _, err := Load(t.Context(), config.Backend{Name: "shop"}, dial); err == nil || !strings.Contains(err.Error(), "shop") {
		t.Error(err)
	}
}

// FuzzDescriptors feeds a whole load, and a table built from it, with whatever
// a backend may send.
func FuzzDescriptors(f *testing.F) {
	var imports []string // they are built in
	d := shop(f)
	for _, file := range filesOf(f, d) {
		if file.GetName() != "shop/shop.proto" {
			imports = append(imports, file.GetName())
		}
	}
	b, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: filesOf(f, d, imports...)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var set descriptorpb.FileDescriptorSet
		if unmarshalDescriptor(b, &set) != nil {
			return
		}
		d, err := newDescriptors(set.GetFile(), anyService, false)
		if err != nil {
			return
		}
		be := config.Backend{Name: "b", Annotations: true, DefaultBinding: true}
		table, _ := Build([]Input{{be, d}}, nil)
		for _, r := range table.Routes() {
			if r.HTTPMethod == "" {
				if got, err := table.MatchGRPC(r.FullMethod); err != nil || got != r {
					t.Errorf("%s: %v", r, err)
				}
			}
		}
	})
}
