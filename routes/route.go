package routes

import (
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
	// Idempotent: the method may be called again with the same request, by its
	// idempotency_level or by the config.
	Idempotent     bool
	IdempotencyKey bool   // a call with the metadata idempotency-key is one that may be repeated
	MaxAttempts    int    // 0: as the backend has it
	Priority       string // low, normal, high or critical: what is shed last
	// What each app may use of the method.
	Limits config.Limits
	// What answers when the backend cannot; nil: nothing.
	Fallback *Fallback
	// Reads whether a response is a success; nil: any is.
	Outcome *Outcome
	// A call goes to all endpoints of the backend; nil: to one. Then Fallback,
	// Outcome and Canary are not set.
	FanOut *config.FanOut
	// Which calls go to which endpoints: the route's own, or else the backend's.
	Canary []config.Canary
	// The field of the request that ring_hash hashes; nil: none.
	HashField *transcode.Field
	// The metadata key whose value ring_hash hashes; empty: none.
	HashHeader string
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
