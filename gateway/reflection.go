package gateway

import (
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/routes"
)

// described is what reflection tells of.
type described interface {
	reflection.ServiceInfoProvider
	protodesc.Resolver
	reflection.ExtensionResolver
}

// registerReflection serves descriptors: on the gRPC port those of the routed
// backends, so that tools like grpcurl see through the gateway what stands behind
// it.
func registerReflection(srv *grpc.Server, view described) {
	opts := reflection.ServerOptions{Services: view, DescriptorResolver: view, ExtensionResolver: view}
	reflectionpb.RegisterServerReflectionServer(srv, reflection.NewServerV1(opts))
	reflectionalphapb.RegisterServerReflectionServer(srv, reflection.NewServer(opts))
}

// reflectionView is the reflection service's look at the table in force, and at
// the health service, which is the gateway's own. What else is linked into the
// gateway is nobody's business.
type reflectionView struct{ g *Gateway }

func (v reflectionView) registry() *routes.Registry { return v.g.Routes().Registry() }

// GetServiceInfo names the routed services and the health service.
func (v reflectionView) GetServiceInfo() map[string]grpc.ServiceInfo {
	out := v.registry().GetServiceInfo()
	out[healthpb.Health_ServiceDesc.ServiceName] = grpc.ServiceInfo{}
	return out
}

// FindFileByPath implements protodesc.Resolver.
func (v reflectionView) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if fd := healthpb.File_grpc_health_v1_health_proto; path == fd.Path() {
		return fd, nil
	}
	return v.registry().FindFileByPath(path)
}

// FindDescriptorByName implements protodesc.Resolver.
func (v reflectionView) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if fd := healthpb.File_grpc_health_v1_health_proto; name.Parent() == fd.Package() {
		if s := fd.Services().ByName(name.Name()); s != nil {
			return s, nil
		}
		if m := fd.Messages().ByName(name.Name()); m != nil {
			return m, nil
		}
	}
	return v.registry().FindDescriptorByName(name)
}

// FindExtensionByName implements protoregistry.ExtensionTypeResolver.
func (v reflectionView) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return v.registry().FindExtensionByName(name)
}

// FindExtensionByNumber implements protoregistry.ExtensionTypeResolver.
func (v reflectionView) FindExtensionByNumber(message protoreflect.FullName, n protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	return v.registry().FindExtensionByNumber(message, n)
}

// RangeExtensionsByMessage implements reflection.ExtensionResolver.
func (v reflectionView) RangeExtensionsByMessage(message protoreflect.FullName, f func(protoreflect.ExtensionType) bool) {
	v.registry().RangeExtensionsByMessage(message, f)
}
