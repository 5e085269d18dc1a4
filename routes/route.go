package routes

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// Where a route comes from. Of two routes of one method with the same HTTP
// method and path, the one whose source stands first here counts.
const (
	SourceConfig     = "config"     // routes: in the config
	SourceAnnotation = "annotation" // google.api.http in the descriptors
	SourceDefault    = "default"    // the backend's default binding
	SourceGRPC       = "grpc"       // the method itself, for gRPC callers
)

// A Route is a way in: an HTTP method and path template, or a gRPC method,
// bound to a backend's method, with its policy. It is not changed once it is in
// a [Table].
type Route struct {
	Index      int    // its position in [Table.Routes]
	Backend    string // "shop"
	FullMethod string // "/shop.UserService/GetUser"

	HTTPMethod   string // "GET", or "*" for all; empty: a gRPC route
	Template     string // "/v1/users/{id}"; empty: a gRPC route
	Body         string // "*", a field, or empty for none
	ResponseBody string // a field, or empty for the whole answer

	Label  string // for metrics: Template, or FullMethod of a gRPC route
	Source string // one of the Source constants
	Origin string // where exactly: a config key, or a .proto file and method

	ClientStreams, ServerStreams bool

	// The policy, merged from backend and config routes.
	AuthNone  bool          // calls need no credential
	Timeout   time.Duration // how long a call may take; 0: as long as the caller gives it
	LogBodies bool          // bodies may be logged
	Forms     bool          // bodies may be application/x-www-form-urlencoded
	Errors    string        // how errors look in JSON, as config has it; empty: as for the whole gateway
	// Rules for metadata, the more general first: the backend's, the method's, the
	// route's own. Empty: none.
	RequestHeaders, ResponseHeaders []config.HeaderRules

	// NoSideEffects: the method says of itself, by its idempotency_level, that it
	// may be called as often as one likes, and so by GET.
	NoSideEffects bool

	// Transcoder is for the route's JSON. A gRPC route has one too, for callers
	// whose JSON is the whole message; it is nil where types that the messages need
	// are not among the descriptors.
	Transcoder *transcode.Method
	JSON       config.JSON                   // the options that it was compiled with
	Types      *Types                        // the backend's types, for status details
	Descriptor protoreflect.MethodDescriptor // as the backend describes it
}

// String names the route: "GET /v1/users/{id}", or the full method.
func (r *Route) String() string {
	if r.HTTPMethod == "" {
		return r.FullMethod
	}
	return r.HTTPMethod + " " + r.Template
}

// describe names the route and where it comes from, for errors.
func (r *Route) describe() string {
	return r.String() + " of backend " + r.Backend + " (" + r.Source + ", " + r.Origin + ")"
}

// A policy is what routes of config say about a method's calls. Its zero value
// leaves everything to the backend.
type policy struct {
	auth      string // as config has it: required, none, or empty
	timeout   time.Duration
	logBodies bool
	forms     bool
	headers   []config.Headers // the more general first
}

// over lays p over a more general policy.
func (p policy) over(general policy) policy {
	return policy{
		auth:      cmp.Or(p.auth, general.auth),
		timeout:   cmp.Or(p.timeout, general.timeout),
		logBodies: p.logBodies || general.logBodies,
		forms:     p.forms || general.forms,
		headers:   slices.Concat(general.headers, p.headers),
	}
}
