package config

import "time"

// HTTP is the port for HTTP/JSON callers: HTTP/1.1 and h2c, or TLS with ALPN.
type HTTP struct {
	// host:port to listen on; `off` for none.
	Address string `yaml:"address" default:":8080"`
	// Serve TLS instead of clear text.
	TLS *ServerTLS `yaml:"tls"`
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
	// How large a request body may be; beyond it the answer is 413.
	MaxBodySize Size `yaml:"max_body_size" default:"4MiB" min:"1B" max:"1GiB"`
	// How many streams one HTTP/2 connection may have open.
	MaxConcurrentStreams uint32 `yaml:"max_concurrent_streams" default:"1000" min:"1"`
	// Proxies whose X-Forwarded-For is believed, as addresses or CIDR blocks. Empty: nobody's.
	TrustedProxies []string `yaml:"trusted_proxies"`
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

// Admin is the port for operators.
type Admin struct {
	// host:port to listen on; `off` for none. It has no authentication: keep it private.
	Address string `yaml:"address" default:"127.0.0.1:9091"`
	// Serve /debug/pprof and gRPC channelz.
	Debug bool `yaml:"debug" default:"true"`
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
	// it is the etcd key instead, since who may write there must not choose whose certificate is believed.
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
