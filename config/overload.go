package config

import "time"

// Overload says when the gateway sheds calls to stay able to serve the others.
// Calls with the lowest priority, and apps with more than their share, are shed
// first. Health and admin calls are never shed.
type Overload struct {
	// Calls in flight, over all protocols, beyond which calls are shed; 0: no limit. Streams count. Calls of low
	// priority may fill 0.8 of it, of normal 0.95, of high 0.975; one app alone 0.84 by calls of normal priority.
	MaxCalls int `yaml:"max_calls" default:"10000" max:"1000000000"`
	// Calls are shed while those that could run wait longer than this, on average, each time before they do (a call
	// does so some ten times), and the gateway's own CPU is used up; 0: whatever they wait.
	QueueDelay time.Duration `yaml:"queue_delay" default:"10ms"`
	// The share of the gateway's own CPU, by its cgroup's quota or else by GOMAXPROCS, from which on it counts as used
	// up; 0: whatever it uses. What others on the machine use does not count. With queue_delay and cpu both 0
	// max_calls alone sheds.
	CPU float64 `yaml:"cpu" default:"0.8" max:"1"`
	// How many bytes of bodies, messages and answers calls may hold together, whether they are still being sent, or
	// not read yet by their callers; 0: as many as come. Calls beyond it are shed, first of the apps that hold the most;
	// each app may hold 1/256 of it in any case. Messages of less than 8 KiB do not count.
	MaxHeldSize Size `yaml:"max_held_size" default:"512MiB" max:"1TiB"`
}

// Concurrency bounds the calls to one backend that are in flight at once, so
// that a slow backend cannot take what the others need.
type Concurrency struct {
	// How many; 0: no limit. Streams count.
	MaxCalls int `yaml:"max_calls" default:"5000" max:"1000000000"`
	// Whether fewer than max_calls are let through as the backend's latency grows. It begins with 100 and finds out.
	Adaptive bool `yaml:"adaptive" default:"false"`
	// For adaptive: at least so many are let through.
	MinCalls int `yaml:"min_calls" default:"10" min:"1" max:"1000000000"`
}
