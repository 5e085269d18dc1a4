// Command protogen generates Go code from .proto files with nothing but Go:
// protocompile in place of protoc, and the plugins protoc-gen-go and
// protoc-gen-go-grpc as tools of this module, so that their versions are
// pinned in its go.mod. The google/api imports come from genproto's registered
// descriptors.
//
//	go run -C tools/protogen . -proto DIR -out DIR [-check] FILE.proto...
//
// DIRs are relative to this module's folder; FILEs are relative to the proto
// DIR. With -check nothing is written: the exit status is 1 when what lies in
// the out DIR is not what would be generated.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	_ "google.golang.org/genproto/googleapis/api/annotations" // registers google/api/annotations.proto and http.proto
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	protoDir := flag.String("proto", "", "folder of the .proto files")
	out := flag.String("out", "", "folder to write the Go files into")
	check := flag.Bool("check", false, "write nothing; fail if the files in -out are not up to date")
	flag.Parse()
	if *protoDir == "" || *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *protoDir, *out, flag.Args(), *check)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, protoDir, out string, files []string, check bool) error {
	compiled, err := compile(ctx, protoDir, files)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, ProtoFile: inOrder(compiled)}
	var faults []error
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		generated, err := runPlugin(ctx, plugin, request)
		if err != nil {
			return err
		}
		for _, f := range generated {
			name := filepath.Join(out, path.Base(f.GetName()))
			if check {
				faults = append(faults, compare(name, f.GetContent()))
				continue
			}
			if err := writeFile(name, f.GetContent()); err != nil {
				return err
			}
		}
	}
	return errors.Join(faults...)
}

func compile(ctx context.Context, protoDir string, files []string) (linker.Files, error) {
	c := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{
			&protocompile.SourceResolver{ImportPaths: []string{protoDir}},
			protocompile.ResolverFunc(registered),
		}),
		SourceInfoMode: protocompile.SourceInfoStandard, // the comments become doc comments
	}
	return c.Compile(ctx, files...)
}

// registered finds the descriptors that are linked into this program.
func registered(name string) (protocompile.SearchResult, error) {
	fd, err := protoregistry.GlobalFiles.FindFileByPath(name)
	return protocompile.SearchResult{Desc: fd}, err
}

// inOrder returns the files and all their imports, each after what it imports,
// as the plugin protocol wants them.
func inOrder(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var ordered []*descriptorpb.FileDescriptorProto
	seen := make(map[string]bool)
	var visit func(fd protoreflect.FileDescriptor)
	visit = func(fd protoreflect.FileDescriptor) {
		if seen[fd.Path()] {
			return
		}
		seen[fd.Path()] = true
		for i := range fd.Imports().Len() {
			visit(fd.Imports().Get(i).FileDescriptor)
		}
		ordered = append(ordered, protoutil.ProtoFromFileDescriptor(fd))
	}
	for _, fd := range files {
		visit(fd)
	}
	return ordered
}

// runPlugin speaks protoc's plugin protocol: the request on standard input,
// the answer on standard output.
func runPlugin(ctx context.Context, name string, request *pluginpb.CodeGeneratorRequest) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encoding the request for %s: %w", name, err)
	}
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", name) //nolint:gosec // one of the two names above
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running %s: %w", name, err)
	}
	response := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(stdout.Bytes(), response); err != nil {
		return nil, fmt.Errorf("decoding the answer of %s: %w", name, err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s: %s", name, response.GetError())
	}
	return response.GetFile(), nil
}

func writeFile(name, content string) error {
	return os.WriteFile(name, []byte(content), 0o644) //nolint:gosec // source code is for all to read
}

func compare(name, want string) error {
	got, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if string(got) != want {
		return fmt.Errorf("%s is out of date: run `make generate`", name)
	}
	return nil
}
