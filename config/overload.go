package config

import "time"

// Overload says when the gateway sheds calls to stay able to serve the others.
// Calls with the lowest priority, and apps with more than their share, are shed
// first.
type Overload struct {
	// Calls in flight, over all protocols, beyond which calls are shed; 0: no limit. Streams count.
	MaxCalls int `yaml:"max_calls" default:"10000"`
	// The share of the gateway's own CPU, by its cgroup's quota or else the machine's processors, beyond which calls
	// are shed; 0: no limit. What others on the machine use does not count.
	CPU float64 `yaml:"cpu" default:"0.95" max:"1"`
	// Calls are shed while they have to wait longer than this to be run; 0: no limit.
	QueueDelay time.Duration `yaml:"queue_delay" default:"100ms"`
}

// Concurrency bounds the calls to one backend that are in flight at once, so
// that a slow backend cannot take what the others need.
type Concurrency struct {
	// How many; 0: no limit. Streams count.
	MaxCalls int `yaml:"max_calls" default:"5000"`
	// Whether fewer than max_calls are let through as the backend's latency grows.
	Adaptive bool `yaml:"adaptive" default:"false"`
	// For adaptive: at least so many are let through.
	MinCalls int `yaml:"min_calls" default:"10" min:"1"`
}
