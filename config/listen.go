package config

import "time"

// HTTP is the port for callers over HTTP, in any protocol: HTTP/1.1 and h2c, or TLS with ALPN.
type HTTP struct {
	// host:port to listen on; `off` for none.
	Address string `yaml:"address" default:":8080"`
	// Serve TLS instead of clear text.
	TLS *ServerTLS `yaml:"tls"`
	// What is spoken here: json (routes with an HTTP method and path, WebSocket included), grpc, grpc_web, connect.
	// All but json reach every method of every routed backend, as the gRPC port does.
	Protocols []string `yaml:"protocols" default:"json,grpc,grpc_web,connect" enum:"json,grpc,grpc_web,connect"`
	// How long a caller may take to send its request headers.
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout" default:"10s" min:"1ms"`
	// How long a caller may take to send a request body; 0: as long as it takes.
	BodyTimeout time.Duration `yaml:"body_timeout" default:"30s"`
	// How long a caller may take to read an answer, or a message of a stream; 0: as long as it takes.
	WriteTimeout time.Duration `yaml:"write_timeout" default:"30s"`
	// How long an idle keep-alive connection is kept.
	IdleTimeout time.Duration `yaml:"idle_timeout" default:"2m" min:"1ms"`
	// How large the request line and headers may be together; beyond it the answer is 431.
	MaxHeaderSize Size `yaml:"max_header_size" default:"64KiB" min:"4KiB" max:"16MiB"`
	// How large a request body may be, or one message of a stream; beyond it the answer is 413. It counts what is
	// left after decompression, too.
	MaxBodySize Size `yaml:"max_body_size" default:"4MiB" min:"1B" max:"1GiB"`
	// How many streams one HTTP/2 connection may have open.
	MaxConcurrentStreams uint32 `yaml:"max_concurrent_streams" default:"1000" min:"1"`
	// Proxies whose X-Forwarded-For is believed, as addresses or CIDR blocks. Empty: nobody's.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// How errors of JSON routes look. status: google.rpc.Status. problem: RFC 9457 problem+json. envelope:
	// `{"code":…,"msg":…,"data":…}`, which wraps successes too.
	Errors string `yaml:"errors" default:"status" enum:"status,problem,envelope"`
	// Which web pages of other origins may call.
	CORS CORS `yaml:"cors"`
	// Compression of JSON answers, by the caller's Accept-Encoding.
	Compression Compression `yaml:"compression"`
	// Streams over WebSocket, and as text/event-stream.
	Streams Streams `yaml:"streams"`
	// Serve /openapi.json, /openapi.yaml and the documentation page here too, to anybody; on the admin port they
	// always are.
	OpenAPI bool `yaml:"openapi" default:"false"`
}

// CORS says which web pages of other origins may call, and how. Without origins no page may.
type CORS struct {
	// The origins, like https://app.example.com; one `*` in each stands for any text, and `*` alone for all.
	AllowedOrigins []string `yaml:"allowed_origins"`
	// The HTTP methods that pages may use.
	AllowedMethods []string `yaml:"allowed_methods" default:"GET,HEAD,POST,PUT,PATCH,DELETE"`
	// The request headers that pages may send besides those that the protocols need; `*` for any.
	AllowedHeaders []string `yaml:"allowed_headers"`
	// The response headers that pages may read besides those that the protocols need; `*` for any, without
	// allow_credentials.
	ExposedHeaders []string `yaml:"exposed_headers"`
	// Whether browsers may send cookies and HTTP authentication along. Not with the origin `*`.
	AllowCredentials bool `yaml:"allow_credentials" default:"false"`
	// How long a browser may remember the answer to a preflight.
	MaxAge time.Duration `yaml:"max_age" default:"10m"`
}

// Compression is how JSON answers are compressed. What callers send compressed (gzip, zstd) is always understood.
type Compression struct {
	// The encodings offered, the preferred one first; empty: none.
	Encodings []string `yaml:"encodings" default:"zstd,gzip" enum:"zstd,gzip"`
	// Answers shorter than this stay as they are.
	MinSize Size `yaml:"min_size" default:"1KiB"`
}

// Streams is how streams to callers that are not RPC clients are kept.
type Streams struct {
	// How often an event stream gets a comment while it has no message, so that proxies in between keep it; 0: never.
	Heartbeat time.Duration `yaml:"heartbeat" default:"15s"`
	// How often a WebSocket is pinged; one that does not answer before the next ping is closed. 0: never.
	PingInterval time.Duration `yaml:"ping_interval" default:"30s"`
	// The origins whose pages may open a WebSocket, besides the gateway's own and those of cors; in the same form.
	AllowedOrigins []string `yaml:"allowed_origins"`
}

// GRPC is the port for native gRPC callers.
type GRPC struct {
	// host:port to listen on; `off` for none.
	Address string `yaml:"address" default:":9090"`
	// Serve TLS instead of clear text.
	TLS *ServerTLS `yaml:"tls"`
	// How large one message from a caller may be.
	MaxMessageSize Size `yaml:"max_message_size" default:"4MiB" min:"1B" max:"1GiB"`
	// How large the headers of one call may be together.
	MaxHeaderSize Size `yaml:"max_header_size" default:"64KiB" min:"4KiB" max:"16MiB"`
	// How many calls one connection may have open.
	MaxConcurrentStreams uint32 `yaml:"max_concurrent_streams" default:"1000" min:"1"`
	// Serve the descriptors of the routed backends by gRPC reflection, so that grpcurl can list them. Reflection asks for no credential.
	Reflection bool `yaml:"reflection" default:"false"`
	// How the server keeps its connections.
	Keepalive ServerKeepalive `yaml:"keepalive"`
}

// ServerKeepalive is how the gRPC server probes and ages its connections.
type ServerKeepalive struct {
	// Ping a connection that was silent this long.
	Time time.Duration `yaml:"time" default:"2m" min:"1s"`
	// Close it when the ping is not answered in this time.
	Timeout time.Duration `yaml:"timeout" default:"20s" min:"1s"`
	// The shortest interval at which callers may ping.
	MinTime time.Duration `yaml:"min_time" default:"10s"`
	// Ask callers to reconnect after this age, so that they spread over new gateways; 0 never.
	MaxConnectionAge time.Duration `yaml:"max_connection_age" default:"0s"`
	// How long calls may go on after that.
	MaxConnectionAgeGrace time.Duration `yaml:"max_connection_age_grace" default:"1m"`
}

// ServerTLS is the identity of a listener.
type ServerTLS struct {
	// PEM file with the certificate chain. Read again when it changes on disk.
	CertFile string `yaml:"cert_file" path:"file" jsonschema:"required"`
	// PEM file with the private key.
	KeyFile string `yaml:"key_file" path:"file" jsonschema:"required"`
	// PEM file with the authorities of client certificates; set, callers must present one.
	ClientCAFile string `yaml:"client_ca_file" path:"file"`
}

// ClientTLS says how a server is trusted, and who we are to it.
type ClientTLS struct {
	// PEM file with the authorities to trust; empty: the system's.
	CAFile string `yaml:"ca_file" path:"file"`
	// PEM file with our certificate chain, where the server asks for one.
	CertFile string `yaml:"cert_file" path:"file"`
	// PEM file with our private key.
	KeyFile string `yaml:"key_file" path:"file"`
	// The name expected in the server's certificate; empty: the host that was dialled. For a backend found in etcd
	// it is the etcd key instead, in Consul the service's name, in Kubernetes `<service>.<namespace>.svc`, since who
	// may register there must not choose whose certificate is believed.
	ServerName string `yaml:"server_name"`
	// Accept any certificate. For trying out only.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify" default:"false"`
}

// Log says what is logged. Secrets, bodies and metadata are not, unless a route asks for its bodies.
type Log struct {
	// The lowest level that is written: debug, info, warn or error.
	Level string `yaml:"level" default:"info" enum:"debug,info,warn,error"`
	// json, or text for people.
	Format string `yaml:"format" default:"json" enum:"json,text"`
	// The share of successful calls that get an access log line, 0 to 1. Failures and slow calls
	// get one, up to 100 a second of each code; the rest of them are counted in the next line.
	SuccessSample float64 `yaml:"success_sample" default:"0.01" max:"1"`
	// From which duration on a call counts as slow.
	SlowThreshold time.Duration `yaml:"slow_threshold" default:"500ms"`
}
