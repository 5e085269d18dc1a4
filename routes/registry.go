package routes

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// A Registry describes the routed services of all backends as if they were one
// server's; it is made to be given to grpc's reflection service, whose three
// resolvers it implements. Where two backends describe one name differently,
// the backend that the service is routed to counts, and then the one that comes
// first in the config.
type Registry struct {
	services map[string]protoreflect.ServiceDescriptor
	backends []*Descriptors
}

// GetServiceInfo names the routed services; their infos are empty. It implements
// reflection.ServiceInfoProvider.
func (r *Registry) GetServiceInfo() map[string]grpc.ServiceInfo {
	info := make(map[string]grpc.ServiceInfo, len(r.services))
	for name := range r.services {
		info[name] = grpc.ServiceInfo{}
	}
	return info
}

// FindFileByPath implements protodesc.Resolver.
func (r *Registry) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	for _, d := range r.backends {
		if f, err := d.files.FindFileByPath(path); err == nil {
			return f, nil
		}
	}
	return nil, protoregistry.NotFound
}

// maxName bounds the names that are looked for, in bytes. protoregistry looks
// for what each beginning of a name names: one of some MiB, which anybody may
// send to a reflection service, would cost hours.
const maxName = 1 << 10

// FindDescriptorByName implements protodesc.Resolver.
func (r *Registry) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if len(name) > maxName {
		return nil, protoregistry.NotFound
	}
	if s, ok := r.services[string(name)]; ok {
		return s, nil
	}
	if s, ok := r.services[string(name.Parent())]; ok {
		if m := s.Methods().ByName(name.Name()); m != nil {
			return m, nil
		}
	}
	for _, d := range r.backends {
		if found, err := d.files.FindDescriptorByName(name); err == nil {
			return found, nil
		}
	}
	return nil, protoregistry.NotFound
}

// FindExtensionByName implements protoregistry.ExtensionTypeResolver.
func (r *Registry) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	if len(name) > maxName {
		return nil, protoregistry.NotFound
	}
	for _, d := range r.backends {
		if x, err := d.types.own.FindExtensionByName(name); err == nil {
			return x, nil
		}
	}
	return nil, protoregistry.NotFound
}

// FindExtensionByNumber implements protoregistry.ExtensionTypeResolver.
func (r *Registry) FindExtensionByNumber(message protoreflect.FullName, field protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	for _, d := range r.backends {
		if x, err := d.types.own.FindExtensionByNumber(message, field); err == nil {
			return x, nil
		}
	}
	return nil, protoregistry.NotFound
}

// RangeExtensionsByMessage implements reflection.ExtensionResolver.
func (r *Registry) RangeExtensionsByMessage(message protoreflect.FullName, f func(protoreflect.ExtensionType) bool) {
	seen := make(map[protoreflect.FieldNumber]bool)
	for _, d := range r.backends {
		more := true
		d.files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
			more = rangeExtensions(file, func(x protoreflect.ExtensionDescriptor) bool {
				if x.ContainingMessage().FullName() != message || seen[x.Number()] {
					return true
				}
				seen[x.Number()] = true
				xt, err := d.types.own.FindExtensionByName(x.FullName())
				return err != nil || f(xt)
			})
			return more
		})
		if !more {
			return
		}
	}
}

// rangeExtensions calls f for the extensions defined in a file or message,
// until f says no.
func rangeExtensions(in interface {
	Extensions() protoreflect.ExtensionDescriptors
	Messages() protoreflect.MessageDescriptors
}, f func(protoreflect.ExtensionDescriptor) bool,
) bool {
	for i := range in.Extensions().Len() {
		if !f(in.Extensions().Get(i)) {
			return false
		}
	}
	for i := range in.Messages().Len() {
		if !rangeExtensions(in.Messages().Get(i), f) {
			return false
		}
	}
	return true
}
