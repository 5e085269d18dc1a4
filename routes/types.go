package routes

import (
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Types resolves message and extension types: those of one backend's files
// first, then those compiled into this program, such as google.rpc.ErrorInfo,
// which backends send in a status without any of their files importing them.
type Types struct {
	own *dynamicpb.Types
}

func newTypes(files *protoregistry.Files) *Types {
	return &Types{own: dynamicpb.NewTypes(files)}
}

// FindMessageByName implements [protoregistry.MessageTypeResolver].
func (t *Types) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	if m, err := t.own.FindMessageByName(name); err == nil {
		return m, nil
	}
	return protoregistry.GlobalTypes.FindMessageByName(name)
}

// FindMessageByURL implements [protoregistry.MessageTypeResolver].
func (t *Types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if m, err := t.own.FindMessageByURL(url); err == nil {
		return m, nil
	}
	return protoregistry.GlobalTypes.FindMessageByURL(url)
}

// FindExtensionByName implements [protoregistry.ExtensionTypeResolver].
func (t *Types) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	if x, err := t.own.FindExtensionByName(name); err == nil {
		return x, nil
	}
	return protoregistry.GlobalTypes.FindExtensionByName(name)
}

// FindExtensionByNumber implements [protoregistry.ExtensionTypeResolver].
func (t *Types) FindExtensionByNumber(message protoreflect.FullName, field protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	if x, err := t.own.FindExtensionByNumber(message, field); err == nil {
		return x, nil
	}
	return protoregistry.GlobalTypes.FindExtensionByNumber(message, field)
}

// httpExtension resolves the google.api.http option and nothing else.
type httpExtension struct{}

func (httpExtension) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	if name != annotations.E_Http.TypeDescriptor().FullName() {
		return nil, protoregistry.NotFound
	}
	return annotations.E_Http, nil
}

func (httpExtension) FindExtensionByNumber(message protoreflect.FullName, field protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	d := annotations.E_Http.TypeDescriptor()
	if message != d.ContainingMessage().FullName() || field != d.Number() {
		return nil, protoregistry.NotFound
	}
	return annotations.E_Http, nil
}
