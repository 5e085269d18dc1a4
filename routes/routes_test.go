package routes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/rpcgate/rpcgate/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shopProto = `syntax = "proto3";
package shop;
import "google/api/annotations.proto";
import "google/protobuf/empty.proto";

service UserService {
  rpc CreateUser(User) returns (User) {
    option (google.api.http) = { post: "/v1/users" body: "*" };
  }
  rpc GetUser(GetUserRequest) returns (User) {
    option (google.api.http) = {
      get: "/v1/users/{id}"
      additional_bindings { get: "/v1/{name=people/*}" response_body: "name" }
    };
  }
  rpc Upload(stream User) returns (google.protobuf.Empty) {
    option (google.api.http) = { post: "/v1/users:upload" body: "*" };
  }
  rpc Watch(GetUserRequest) returns (stream User);
}
message User { int64 id = 1; string name = 2; }
message GetUserRequest { int64 id = 1; string name = 2; }
`

// compileText compiles files given as text; those named by serves are the ones
// whose services are served.
func compileText(tb testing.TB, files map[string]string, serves ...string) *Descriptors {
	tb.Helper()
	d, err := CompileProto(tb.Context(), protoSources(tb, files, serves...))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func protoSources(tb testing.TB, files map[string]string, serves ...string) config.ProtoSources {
	tb.Helper()
	dir := tb.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return config.ProtoSources{Files: serves, ImportPaths: []string{dir}}
}

func shop(tb testing.TB) *Descriptors {
	tb.Helper()
	return compileText(tb, map[string]string{"shop/shop.proto": shopProto}, "shop/shop.proto")
}

// filesOf gives the files of d as a backend or protoc would give them, the ones
// named left out.
func filesOf(tb testing.TB, d *Descriptors, without ...string) []*descriptorpb.FileDescriptorProto {
	tb.Helper()
	var files []*descriptorpb.FileDescriptorProto
	d.Files().RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if !slices.Contains(without, f.Path()) {
			files = append(files, protodesc.ToFileDescriptorProto(f))
		}
		return true
	})
	slices.SortFunc(files, func(a, b *descriptorpb.FileDescriptorProto) int { return strings.Compare(a.GetName(), b.GetName()) })
	return files
}

func protoset(tb testing.TB, files ...*descriptorpb.FileDescriptorProto) string {
	tb.Helper()
	b, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		tb.Fatal(err)
	}
	name := filepath.Join(tb.TempDir(), "set.binpb")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		tb.Fatal(err)
	}
	return name
}

func names(d *Descriptors) []string { return serviceNames(d.Services()) }

func servicesOf(d *Descriptors) map[string]protoreflect.ServiceDescriptor {
	services := make(map[string]protoreflect.ServiceDescriptor)
	for _, s := range d.Services() {
		services[string(s.FullName())] = s
	}
	return services
}
