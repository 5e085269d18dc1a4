// Package protoset owns the descriptors of the bench's .proto files, as other
// programs want them. They come from the generated Go code: there is no protoc.
package protoset

import (
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Files is the files and all their imports, each once and after what it imports.
func Files(files ...protoreflect.FileDescriptor) []*descriptorpb.FileDescriptorProto {
	var ordered []*descriptorpb.FileDescriptorProto
	seen := make(map[string]bool)
	for _, fd := range files {
		ordered = inOrder(fd, ordered, seen)
	}
	return ordered
}

func inOrder(fd protoreflect.FileDescriptor, ordered []*descriptorpb.FileDescriptorProto, seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[fd.Path()] {
		return ordered
	}
	seen[fd.Path()] = true
	for i := range fd.Imports().Len() {
		ordered = inOrder(fd.Imports().Get(i).FileDescriptor, ordered, seen)
	}
	return append(ordered, protodesc.ToFileDescriptorProto(fd))
}
