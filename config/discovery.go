package config

import "time"

// Consul is where backends with `consul` are found: an agent, by its HTTP API.
type Consul struct {
	// host:port of the agent.
	Address string `yaml:"address"`
	// Speak TLS to it.
	TLS *ClientTLS `yaml:"tls"`
	// The ACL token. Prefer token_file or ${ENV}.
	Token Secret `yaml:"token"`
	// File that holds the token.
	TokenFile string `yaml:"token_file" path:"file"`
	// The datacenter; empty: the agent's own.
	Datacenter string `yaml:"datacenter"`
	// How long one blocking query may wait for a change.
	WaitTime time.Duration `yaml:"wait_time" default:"1m" min:"1s" max:"10m"`
}

// BackendConsul finds a backend's endpoints in Consul's catalog: instances that
// pass their checks.
type BackendConsul struct {
	// The name of the service.
	Service string `yaml:"service" jsonschema:"required"`
	// Only instances with this tag; empty: any.
	Tag string `yaml:"tag"`
}

// Kubernetes is the API server that backends with `kubernetes` are found by.
// Without address, the one that a pod is told of, with the pod's service account.
type Kubernetes struct {
	// The URL of the API server; empty: that of the cluster that the gateway runs in.
	Address string `yaml:"address"`
	// Speak TLS to it, with other certificates than the service account's.
	TLS *ClientTLS `yaml:"tls"`
	// File that holds the bearer token; empty: the service account's. It is read again as it changes.
	TokenFile string `yaml:"token_file" path:"file"`
}

// BackendKubernetes finds a backend's endpoints in the EndpointSlices of a service.
type BackendKubernetes struct {
	// The name of the service.
	Service string `yaml:"service" jsonschema:"required"`
	// Its namespace; empty: that of the gateway's own pod, or default.
	Namespace string `yaml:"namespace"`
	// The port's name or number; empty: the only one.
	Port string `yaml:"port"`
}

// DNS says how names in targets (dns:///host:port) are looked up.
type DNS struct {
	// How often a name is looked up again, less a jitter of up to a fifth. A failed connection has it looked up
	// sooner.
	Interval time.Duration `yaml:"interval" default:"30s" min:"1s" max:"1h"`
}
