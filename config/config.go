// Package config owns the shape of rpcgate's configuration: the types, their
// defaults and meaning, strict loading with line numbers, and offline
// validation. It is a leaf: each room takes its own part of it
// ([Auth], [Backend], …), and only the command and the gateway's constructor
// name the whole [Config].
//
// The comments on the fields are the reference: the JSON schema
// (`gateway check --schema`) is generated from them. A field's default stands
// in its `default` tag and is set before decoding, so an absent key has the
// default and a present one what it says. A new field must leave old files
// valid: its zero value, or its default, keeps the old behaviour.
package config

import "time"

// Config is one whole configuration file.
type Config struct {
	// The port for HTTP/JSON callers.
	HTTP HTTP `yaml:"http"`
	// The port for native gRPC callers.
	GRPC GRPC `yaml:"grpc"`
	// The port for operators: metrics, health, profiles. Keep it private.
	Admin Admin `yaml:"admin"`
	// The Redis that holds the tokens. Needed unless every route is `auth: none`.
	Redis Redis `yaml:"redis"`
	// The etcd that backends are found in. Needed where a backend or `register` names a key.
	Etcd Etcd `yaml:"etcd"`
	// The Consul that backends are found in.
	Consul Consul `yaml:"consul"`
	// The Kubernetes that backends are found in.
	Kubernetes Kubernetes `yaml:"kubernetes"`
	// How the names of targets are looked up.
	DNS DNS `yaml:"dns"`
	// How credentials are verified.
	Auth Auth `yaml:"auth"`
	// What is logged.
	Log Log `yaml:"log"`
	// Whether errors that the gateway itself makes have details: a google.rpc.ErrorInfo with the reason, and where there
	// is more to say, what field was bad or when to try again. Without them they are as bare as a plain gRPC server's.
	ErrorInfo bool `yaml:"error_info" default:"true"`
	// Tell callers how many attempts their call had (x-rpcgate-attempts) and which endpoint served it
	// (x-rpcgate-endpoint): off, attempts, or endpoint for both. An endpoint's address says something of the network
	// behind the gateway.
	CallInfo string `yaml:"call_info" default:"off" enum:"off,attempts,endpoint"`
	// Headers that go on to every backend under their own name, whichever protocol they came by, beside the trace context
	// (traceparent, tracestate, baggage), which always does.
	ContextHeaders []string `yaml:"context_headers"`
	// When the gateway sheds calls.
	Overload Overload `yaml:"overload"`
	// What apps may use.
	Limits Limiting `yaml:"limits"`
	// What apps use, counted.
	Usage Usage `yaml:"usage"`
	// Which apps the metrics tell apart.
	Metrics Metrics `yaml:"metrics"`
	// How the gateway stops.
	Shutdown Shutdown `yaml:"shutdown"`
	// Registers the gateway itself in etcd, so that zRPC clients can find it.
	Register *Register `yaml:"register"`
	// The services that calls go out to.
	Backends []Backend `yaml:"backends"`
	// Routes, and policies for methods, besides those that the descriptors' annotations give.
	Routes []Route `yaml:"routes"`

	// source tells Validate where each key stands; nil in a configuration built in code.
	source *source
}

// Shutdown says how the gateway stops on SIGTERM.
type Shutdown struct {
	// How long readiness is off before the listeners close, so that load balancers look away first. Callers with
	// connections kept open are told to leave in this time; 0 can lose a request of theirs that is on its way.
	Delay time.Duration `yaml:"delay" default:"1s"`
	// How long calls in flight may take to finish; what is left then is cut off.
	DrainTimeout time.Duration `yaml:"drain_timeout" default:"45s"`
}

// Register puts the gateway's gRPC address into etcd under Key, as zRPC servers do.
type Register struct {
	// The etcd key prefix: the address goes to `<key>/<lease id>`.
	Key string `yaml:"key" jsonschema:"required"`
	// The host:port that clients shall dial. Empty: from POD_IP or the first private address, and the gRPC port.
	Advertise string `yaml:"advertise"`
	// How long the entry outlives a gateway that died.
	TTL time.Duration `yaml:"ttl" default:"10s" min:"1s"`
}

// Secret is a string that prints as "[redacted]" however it is formatted, logged or marshalled.
type Secret string

const redacted = "[redacted]"

// Reveal returns the secret itself. Its callers are the places to audit.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText hides the secret from JSON, YAML and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
