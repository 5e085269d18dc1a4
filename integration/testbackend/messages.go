package testbackend

import (
	"bytes"
	"embed"
	"encoding/json"
	"io"
	"path"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	_ "google.golang.org/genproto/googleapis/api/annotations" // imported by the .proto file
	_ "google.golang.org/genproto/googleapis/api/httpbody"    // as above
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// File is the backend's .proto file, and ImportPath where it lies inside this
// package.
const (
	File       = "testbackend/echo.proto"
	ImportPath = "proto"
)

//go:embed proto
var sources embed.FS

// compile returns the backend's file with all that it imports.
func compile(tb testing.TB) *protoregistry.Files {
	tb.Helper()
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{
			&protocompile.SourceResolver{Accessor: func(name string) (io.ReadCloser, error) {
				return sources.Open(path.Join(ImportPath, name))
			}},
			protocompile.ResolverFunc(func(name string) (protocompile.SearchResult, error) {
				fd, err := protoregistry.GlobalFiles.FindFileByPath(name)
				return protocompile.SearchResult{Desc: fd}, err
			}),
		}),
	}
	compiled, err := compiler.Compile(tb.Context(), File)
	if err != nil {
		tb.Fatalf("compiling %s: %v", File, err)
	}
	files := new(protoregistry.Files)
	var add func(protoreflect.FileDescriptor)
	add = func(fd protoreflect.FileDescriptor) {
		if _, err := files.FindFileByPath(fd.Path()); err == nil {
			return
		}
		for i := range fd.Imports().Len() {
			add(fd.Imports().Get(i).FileDescriptor)
		}
		if err := files.RegisterFile(fd); err != nil {
			tb.Fatalf("registering %s: %v", fd.Path(), err)
		}
	}
	add(compiled[0])
	return files
}

// Protoset returns the backend's descriptors as `protoc --include_imports
// --descriptor_set_out` writes them: each file after those that it imports.
func (s *Server) Protoset() []byte {
	s.tb.Helper()
	set := new(descriptorpb.FileDescriptorSet)
	seen := make(map[string]bool)
	var add func(protoreflect.FileDescriptor)
	add = func(fd protoreflect.FileDescriptor) {
		if seen[fd.Path()] {
			return
		}
		seen[fd.Path()] = true
		for i := range fd.Imports().Len() {
			add(fd.Imports().Get(i).FileDescriptor)
		}
		if fd.Path() == File {
			set.File = append(set.File, protoutil.ProtoFromFileDescriptor(fd))
		} else {
			set.File = append(set.File, protodesc.ToFileDescriptorProto(fd))
		}
	}
	root, err := s.files.FindFileByPath(File)
	if err != nil {
		s.tb.Fatal(err)
	}
	add(root)
	data, err := proto.Marshal(set)
	if err != nil {
		s.tb.Fatal(err)
	}
	return data
}

// Message returns an empty message of the backend's package, or, by its full
// name ("google.api.HttpBody"), of any package that its file imports.
func (s *Server) Message(name string) *dynamicpb.Message {
	s.tb.Helper()
	full := protoreflect.FullName(name)
	if full.Parent() == "" {
		full = "testbackend." + full
	}
	d, err := s.files.FindDescriptorByName(full)
	if err != nil {
		s.tb.Fatal(err)
	}
	md, ok := d.(protoreflect.MessageDescriptor)
	if !ok {
		s.tb.Fatalf("%s is no message", name)
	}
	return dynamicpb.NewMessage(md)
}

// Encode returns the wire form of a message that is given as JSON.
func (s *Server) Encode(name, text string) []byte {
	s.tb.Helper()
	m := s.Message(name)
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		s.tb.Fatalf("%s %s: %v", name, text, err)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		s.tb.Fatal(err)
	}
	return data
}

// JSON returns a message that is given as bytes as compact JSON without the
// fields that are not set.
func (s *Server) JSON(name string, data []byte) string {
	s.tb.Helper()
	m := s.Message(name)
	if err := proto.Unmarshal(data, m); err != nil {
		s.tb.Fatalf("%s %x: %v", name, data, err)
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		s.tb.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		s.tb.Fatal(err)
	}
	return compact.String()
}
