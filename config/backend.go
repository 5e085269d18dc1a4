package config

import "time"

// Backend is a named upstream gRPC service group. Exactly one of Endpoints,
// Etcd, Consul, Kubernetes and Target says where it is; exactly one of Reflection, Protoset and
// Proto says what it serves.
type Backend struct {
	// Its name in routes, logs and metrics.
	Name string `yaml:"name" jsonschema:"required"`
	// Its addresses, host:port each.
	Endpoints []string `yaml:"endpoints"`
	// Its addresses are found in etcd.
	Etcd *BackendEtcd `yaml:"etcd"`
	// Its addresses are found in Consul.
	Consul *BackendConsul `yaml:"consul"`
	// Its addresses are found in Kubernetes.
	Kubernetes *BackendKubernetes `yaml:"kubernetes"`
	// Any other gRPC target: dns:///host:port, unix:/path, xds:///name.
	Target string `yaml:"target"`
	// Speak TLS to it; absent: clear text.
	TLS *ClientTLS `yaml:"tls"`

	// Ask the backend itself for its descriptors, by gRPC reflection.
	Reflection bool `yaml:"reflection" default:"false"`
	// How often they are asked for again.
	ReflectionInterval time.Duration `yaml:"reflection_interval" default:"1m" min:"10ms"`
	// Files with a FileDescriptorSet (protoc --include_imports --descriptor_set_out).
	Protoset []string `yaml:"protoset" path:"file"`
	// .proto sources, compiled at start.
	Proto *ProtoSources `yaml:"proto"`

	// The services that are reachable, by full name; empty: all but `grpc.*`.
	Services []string `yaml:"services"`
	// Bind the google.api.http annotations found in the descriptors.
	Annotations bool `yaml:"annotations" default:"true"`
	// Bind `POST /<package.Service>/<Method>` with the whole message as body, for every method.
	DefaultBinding bool `yaml:"default_binding" default:"false"`
	// Whether calls need a credential: required, or none for all of its routes.
	Auth string `yaml:"auth" default:"required" enum:"required,none"`
	// What becomes of the caller's credential: pass sends it on as metadata app and token (zRPC's way), drop does not.
	Credentials string `yaml:"credentials" default:"pass" enum:"pass,drop"`
	// What it is told of who calls, as metadata that no caller can set: app is x-rpcgate-app, token_id
	// x-rpcgate-token-id, scopes x-rpcgate-scopes, what app and token may call. [] tells it nothing.
	Identity []string `yaml:"identity" default:"app,token_id,scopes" enum:"app,token_id,scopes"`
	// How its JSON looks.
	JSON JSON `yaml:"json"`
	// How errors of its JSON routes look; empty: as http.errors says.
	Errors string `yaml:"errors" enum:",status,problem,envelope"`
	// Take application/x-www-form-urlencoded bodies, too, on routes with a body.
	Forms bool `yaml:"forms" default:"false"`
	// Which headers go to it, and which of its own come back.
	Headers Headers `yaml:"headers"`

	// How long a unary call may take; 0: as long as the caller gives it.
	Timeout time.Duration `yaml:"timeout" default:"2s"`
	// How long a streaming call may take; 0: as long as the caller gives it.
	StreamTimeout time.Duration `yaml:"stream_timeout" default:"0s"`
	// Other limits for some methods: package.Service/Method to duration.
	MethodTimeouts map[string]time.Duration `yaml:"method_timeouts"`
	// What is kept back of the deadline, so that the gateway can still answer.
	DeadlineReserve time.Duration `yaml:"deadline_reserve" default:"5ms"`

	// When to stop calling a sick method for a while.
	Breaker Breaker `yaml:"breaker"`
	// When a call is tried again.
	Retry Retry `yaml:"retry"`
	// How many calls may be in flight.
	Concurrency Concurrency `yaml:"concurrency"`
	// How an endpoint is picked.
	Balancer Balancer `yaml:"balancer"`
	// When an endpoint is taken out of use for a while.
	Ejection Ejection `yaml:"ejection"`
	// Asking endpoints for their health.
	HealthCheck HealthCheck `yaml:"health_check"`
	// Sends some calls to some endpoints. A route's own canaries take the place of these.
	Canary []Canary `yaml:"canary"`
	// How connections are shared between callers.
	Pool Pool `yaml:"pool"`
	// How one connection is made and kept.
	Conn Conn `yaml:"conn"`
}

// BackendEtcd finds a backend's endpoints under an etcd key.
type BackendEtcd struct {
	// The key that its instances register under.
	Key string `yaml:"key" jsonschema:"required"`
	// How they register. zrpc: `<key>/<lease id>` holds host:port. endpoints: etcd's own naming layout, JSON
	// with Addr and Metadata. auto: each value tells.
	Layout string `yaml:"layout" default:"auto" enum:"auto,zrpc,endpoints"`
}

// ProtoSources are .proto files to compile.
type ProtoSources struct {
	// The files, relative to an import path.
	Files []string `yaml:"files" jsonschema:"required"`
	// Where they and their imports lie; empty: the configuration file's folder. `google/api/*.proto` and
	// `google/protobuf/*.proto` are built in.
	ImportPaths []string `yaml:"import_paths" path:"file"`
}

// JSON says how a backend's messages look as JSON.
type JSON struct {
	// Write fields that have their default value too.
	EmitDefaults bool `yaml:"emit_defaults" default:"true"`
	// Write field names as in the .proto file instead of lowerCamelCase.
	UseProtoNames bool `yaml:"use_proto_names" default:"false"`
	// Write 64-bit integers as JSON numbers instead of strings. JavaScript cannot hold those beyond 2^53.
	Int64AsNumbers bool `yaml:"int64_as_numbers" default:"false"`
	// Write enum values as numbers instead of names.
	EnumsAsNumbers bool `yaml:"enums_as_numbers" default:"false"`
	// Ignore unknown fields in bodies and queries instead of refusing them with 400.
	DiscardUnknown bool `yaml:"discard_unknown" default:"true"`
}

// Breaker guards each method of a backend.
type Breaker struct {
	// Whose failures open it, and for whom. method: all callers' of the method. app: one app's failures open it for
	// that app alone. In either scope RESOURCE_EXHAUSTED is a failure to the app that got it, and to no other.
	Scope string `yaml:"scope" default:"method" enum:"method,app"`
	// adaptive: sheds a growing share of the calls as more of them fail (SRE book, client-side throttling).
	// threshold: opens after a run or a share of failures. off: never.
	Kind string `yaml:"kind" default:"adaptive" enum:"adaptive,threshold,off"`
	// For kind adaptive.
	Adaptive AdaptiveBreaker `yaml:"adaptive"`
	// For kind threshold.
	Threshold ThresholdBreaker `yaml:"threshold"`
}

// AdaptiveBreaker has zRPC's parameters.
type AdaptiveBreaker struct {
	// Over how long calls are counted.
	Window time.Duration `yaml:"window" default:"10s" min:"1ms"`
	// In how many steps the window moves on.
	Buckets int `yaml:"buckets" default:"40" min:"1" max:"10000"`
	// How many calls per accepted call are let through; smaller sheds sooner. Above 1.
	K float64 `yaml:"k" default:"1.5"`
	// At least one call in this time goes through however sick the backend is.
	ProbeInterval time.Duration `yaml:"probe_interval" default:"1s" min:"1ms"`
}

// ThresholdBreaker opens when either limit is reached.
type ThresholdBreaker struct {
	// Failures in a row that open it, each within Interval of the one before; 0: that does not.
	ConsecutiveFailures uint32 `yaml:"consecutive_failures" default:"5"`
	// The share of failures in Interval that opens it, 0 to 1; 0: that does not.
	FailureRatio float64 `yaml:"failure_ratio" default:"0" max:"1"`
	// The least number of calls in Interval for FailureRatio to count.
	MinCalls uint32 `yaml:"min_calls" default:"20" min:"1"`
	// Over how long calls are counted while it is closed.
	Interval time.Duration `yaml:"interval" default:"10s" min:"1ms"`
	// How long it stays open before it lets probes through.
	OpenTimeout time.Duration `yaml:"open_timeout" default:"5s" min:"1ms"`
	// How many probes may run at once, and must succeed, before it closes.
	HalfOpenProbes uint32 `yaml:"half_open_probes" default:"1" min:"1"`
}

// Pool says how connections are shared between callers.
type Pool struct {
	// Who shares a connection. credential: nobody, each app + token has its own. app: the tokens of one app.
	// shared: everybody. The caller's own credential goes with each call in any case. What each costs and keeps
	// apart is in docs/scaling.md: credential while there are no more credentials active than the gateway and the
	// backend have memory for, app where apps have many tokens, shared for a backend that need not tell its
	// callers' connections apart.
	Key string `yaml:"key" default:"credential" enum:"credential,app,shared"`
	// How many connections there may be, over all credentials; the least recently used one makes room.
	MaxConns int `yaml:"max_conns" default:"1024" min:"1"`
	// How many connections to one endpoint may be being made at once; 0: as many as are wanted. The others wait:
	// apps take turns, and a connection that a call waits for goes before one that none does. A call that waits
	// keeps its own deadline. With an xds target there is no such bound.
	MaxDials int `yaml:"max_dials" default:"64" min:"0"`
	// Close a connection that carried no call for this long; 0: never.
	IdleTimeout time.Duration `yaml:"idle_timeout" default:"30m"`
	// How long calls on an evicted or revoked connection may go on; 0: as long as they want.
	DrainTimeout time.Duration `yaml:"drain_timeout" default:"10m"`
}

// Conn says how one connection is made and kept.
type Conn struct {
	// How long one attempt to connect may take.
	ConnectTimeout time.Duration `yaml:"connect_timeout" default:"5s" min:"1ms"`
	// The longest pause between two attempts to connect.
	MaxBackoff time.Duration `yaml:"max_backoff" default:"5s" min:"1ms"`
	// Ping a connection that was silent this long, with calls in flight; 0: never. Stock gRPC servers allow one
	// ping in five minutes and close the connection on a caller that sends more; before setting it shorter, allow
	// more there.
	KeepaliveTime time.Duration `yaml:"keepalive_time" default:"6m"`
	// Close it when the ping is not answered in this time.
	KeepaliveTimeout time.Duration `yaml:"keepalive_timeout" default:"10s" min:"1ms"`
	// Ping without calls in flight too. The backend must allow it.
	KeepaliveIdle bool `yaml:"keepalive_idle" default:"false"`
	// How much is read from it at once, at most; 0: 32KiB in clear text, where connections that have nothing to
	// read hold no buffer (on Linux), and 4KiB with TLS, where each has its own.
	ReadBuffer Size `yaml:"read_buffer" default:"0B" max:"1MiB"`
	// How large one message from the backend may be.
	MaxReceiveSize Size `yaml:"max_receive_size" default:"16MiB" min:"1B" max:"1GiB"`
	// How large one message to the backend may be.
	MaxSendSize Size `yaml:"max_send_size" default:"16MiB" min:"1B" max:"1GiB"`
}
