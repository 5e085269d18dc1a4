package routes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/rpcgate/rpcgate/config"
)

// Load gets a backend's descriptors from where its config says they come from.
// dial is called only for reflection, and gives a connection and what to do
// when it is no longer needed.
func Load(ctx context.Context, cfg config.Backend, dial func(context.Context) (grpc.ClientConnInterface, func(), error)) (*Descriptors, error) {
	switch {
	case len(cfg.Protoset) > 0:
		return LoadProtoset(cfg.Protoset)
	case cfg.Proto != nil:
		return CompileProto(ctx, *cfg.Proto)
	case cfg.Reflection:
		conn, release, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
		return Reflect(ctx, conn)
	default:
		return nil, fmt.Errorf("backend %q has no source of descriptors: reflection, protoset or proto", cfg.Name)
	}
}

// LoadProtoset reads files that hold a FileDescriptorSet each, as protoc
// --descriptor_set_out writes them. The backend serves all services of all
// files in them. google/api, google/protobuf and google/rpc need not be
// included.
func LoadProtoset(files []string) (*Descriptors, error) {
	var protos []*descriptorpb.FileDescriptorProto
	var faults []error
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		var set descriptorpb.FileDescriptorSet
		if err := unmarshalDescriptor(b, &set); err != nil {
			faults = append(faults, fmt.Errorf("%s is not a FileDescriptorSet: %w", name, err))
			continue
		}
		if len(set.GetFile()) == 0 {
			faults = append(faults, fmt.Errorf("%s holds no file descriptors", name))
		}
		protos = append(protos, set.GetFile()...)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return newDescriptors(protos, anyService, true)
}

func anyService(protoreflect.ServiceDescriptor) bool { return true }

// CompileProto compiles .proto sources. The backend serves the services of the
// files named, not those of their imports. google/api, google/protobuf and
// google/rpc are built in, but a file in an import path comes first.
func CompileProto(ctx context.Context, src config.ProtoSources) (*Descriptors, error) {
	var faults []error
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{
			&protocompile.SourceResolver{ImportPaths: src.ImportPaths},
			protocompile.ResolverFunc(resolveBuiltin),
		}),
		SourceInfoMode: protocompile.SourceInfoStandard, // for comments
		// Going on after an error finds all of them.
		Reporter: reporter.NewReporter(func(err reporter.ErrorWithPos) error {
			faults = append(faults, err)
			return nil
		}, nil),
	}
	compiled, err := compiler.Compile(ctx, src.Files...)
	if len(faults) > 0 {
		return nil, fmt.Errorf("compile proto sources: %w", errors.Join(faults...))
	}
	if err != nil {
		return nil, fmt.Errorf("compile proto sources: %w", err)
	}
	files := make([]protoreflect.FileDescriptor, len(compiled))
	for i, f := range compiled {
		files[i] = f
	}
	protos, err := withImports(files)
	if err != nil {
		return nil, err
	}
	return newDescriptors(protos, func(s protoreflect.ServiceDescriptor) bool {
		return slices.Contains(src.Files, s.ParentFile().Path())
	}, true)
}

// Linked makes descriptors of files that are linked into this program, which
// generated code has without comments. The services are those of the files
// named, not those of their imports.
func Linked(files ...protoreflect.FileDescriptor) (*Descriptors, error) {
	protos, err := withImports(files)
	if err != nil {
		return nil, err
	}
	return newDescriptors(protos, func(s protoreflect.ServiceDescriptor) bool {
		return slices.ContainsFunc(files, func(f protoreflect.FileDescriptor) bool { return f.Path() == s.ParentFile().Path() })
	}, true)
}

// withImports gives files, and all that they import, as they would have come
// over the wire.
func withImports(files []protoreflect.FileDescriptor) ([]*descriptorpb.FileDescriptorProto, error) {
	var protos []*descriptorpb.FileDescriptorProto
	seen := make(map[string]bool)
	var add func(f protoreflect.FileDescriptor) error
	add = func(f protoreflect.FileDescriptor) error {
		if seen[f.Path()] || f.IsPlaceholder() {
			return nil
		}
		seen[f.Path()] = true
		p, err := plainFile(f)
		if err != nil {
			return err
		}
		protos = append(protos, p)
		for i := range f.Imports().Len() {
			if err := add(f.Imports().Get(i).FileDescriptor); err != nil {
				return err
			}
		}
		return nil
	}
	for _, f := range files {
		if err := add(f); err != nil {
			return nil, err
		}
	}
	return protos, nil
}

func resolveBuiltin(path string) (protocompile.SearchResult, error) {
	f := builtinFile(path)
	if f == nil {
		return protocompile.SearchResult{}, protoregistry.NotFound
	}
	return protocompile.SearchResult{Desc: f}, nil
}

// plainFile gives f's descriptor as it would have come over the wire.
func plainFile(f protoreflect.FileDescriptor) (*descriptorpb.FileDescriptorProto, error) {
	b, err := proto.Marshal(protodesc.ToFileDescriptorProto(f))
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", f.Path(), err)
	}
	p := new(descriptorpb.FileDescriptorProto)
	if err := unmarshalDescriptor(b, p); err != nil {
		return nil, fmt.Errorf("unmarshal %s: %w", f.Path(), err)
	}
	return p, nil
}

// unmarshalDescriptor leaves all extensions unparsed: they may come from
// anybody's files, and one that cannot be parsed must not cost the rest.
// [httpRule] parses the one we want.
func unmarshalDescriptor(b []byte, m proto.Message) error {
	return proto.UnmarshalOptions{Resolver: (*protoregistry.Types)(nil), AllowPartial: true}.Unmarshal(b, m)
}
