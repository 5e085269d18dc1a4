package transcode

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Resolver finds the types that JSON names: messages inside Any, extensions.
// *protoregistry.Types and *dynamicpb.Types are such.
type Resolver interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
}

// resolvers asks one resolver after the other, for names that may be one.
type resolvers [2]Resolver

// maxName bounds the names that are looked for, in bytes. protoregistry looks
// for what each beginning of a name names, "a", "a.b" and "a.b.c": what a
// caller made up of some MiB would cost hours.
const maxName = 1 << 10

// linked adds the types that are linked into the program (google.protobuf.*,
// google.rpc.*), which a backend's descriptors often leave out.
func linked(types Resolver) Resolver {
	if types == nil {
		return protoregistry.GlobalTypes
	}
	return resolvers{types, protoregistry.GlobalTypes}
}

func (r resolvers) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	if len(name) > maxName {
		return nil, protoregistry.NotFound
	}
	if t, err := r[0].FindMessageByName(name); err == nil {
		return t, nil
	}
	return r[1].FindMessageByName(name)
}

func (r resolvers) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if len(url)-strings.LastIndexByte(url, '/')-1 > maxName {
		return nil, protoregistry.NotFound
	}
	if t, err := r[0].FindMessageByURL(url); err == nil {
		return t, nil
	}
	return r[1].FindMessageByURL(url)
}

func (r resolvers) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	if len(name) > maxName {
		return nil, protoregistry.NotFound
	}
	if t, err := r[0].FindExtensionByName(name); err == nil {
		return t, nil
	}
	return r[1].FindExtensionByName(name)
}

func (r resolvers) FindExtensionByNumber(message protoreflect.FullName, n protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	if t, err := r[0].FindExtensionByNumber(message, n); err == nil {
		return t, nil
	}
	return r[1].FindExtensionByNumber(message, n)
}
