package gateway

import (
	"context"
	"crypto/x509"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// AdminServices are what the admin port serves besides the gateway's own
// endpoints: gRPC services, by gRPC, gRPC-Web, Connect and, where their methods
// have google.api.http annotations, as JSON. Their paths begin with /admin/.
type AdminServices struct {
	// The files that describe the services; each of these must be registered.
	Files []protoreflect.FileDescriptor
	// Registers their implementations. What these return that is no gRPC status
	// is told as INTERNAL, and logged.
	Register func(grpc.ServiceRegistrar)
	// What their calls go through; nil: nothing.
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor
}

// Operators say who may use the admin port, but for what is open to all:
// metrics, health and the documents.
type Operators interface {
	// Admit finds out who asks, and whether he may. The context is for what
	// serves the request. Errors are gRPC statuses.
	Admit(ctx context.Context, r AdminRequest) (context.Context, error)
	// Served tells what became of a request to the gateway's own endpoints that
	// changes something. The context is Admit's.
	Served(ctx context.Context, c AdminChange, err error)
	// Name is who was admitted.
	Name(ctx context.Context) string
}

// AdminRequest is what an operator wants, and what tells who he is.
type AdminRequest struct {
	// The full name of a service's method, or the HTTP method and path of one of
	// the gateway's own endpoints.
	Method string
	// Whether nothing is changed by it.
	Reads bool
	// The address that it comes from.
	From string
	// The bearer token; empty: none was given.
	Token string
	// The certificate, which one of the port's authorities has signed; nil: none
	// was given.
	Certificate *x509.Certificate
}

// AdminChange is what was changed, or was to be, by one of the gateway's own
// endpoints.
type AdminChange struct {
	// The HTTP method and path.
	Method string
	// The app that it is about; empty: none alone.
	App string
	// What was asked for, as name=value, once it was found to make sense.
	Fields []string
}

// adminChangeKey is the context key of the *AdminChange that a handler fills in.
type adminChangeKey struct{}

// operatorRequest is the context key of the AdminRequest of a request to a
// service, with what is known before its route.
type operatorRequest struct{}
