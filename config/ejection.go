package config

import "time"

// Ejection takes an endpoint that does worse than its peers out of use for a
// while.
type Ejection struct {
	// Failures in a row that eject an endpoint; 0: that does not.
	ConsecutiveFailures int `yaml:"consecutive_failures" default:"5"`
	// How often endpoints are compared with each other, by what their calls did since.
	Interval time.Duration `yaml:"interval" default:"10s" min:"10ms"`
	// How many calls an endpoint must have had in the interval to be compared.
	MinCalls int `yaml:"min_calls" default:"20" min:"1"`
	// How many endpoints must have had that many.
	MinEndpoints int `yaml:"min_endpoints" default:"3" min:"2"`
	// An endpoint is ejected whose share of successes is below the others' mean by this many of their standard
	// deviations, and by 0.05; 0: none is.
	SuccessDeviations float64 `yaml:"success_deviations" default:"1.9"`
	// An endpoint is ejected whose mean latency is this many times the median of all, and 1ms above it; 0: none is.
	LatencyFactor float64 `yaml:"latency_factor" default:"0"`
	// How long it is out of use the first time. Each further time it is as much longer; a time is forgotten for each
	// interval in use. Then single calls try it out until one succeeds.
	BaseTime time.Duration `yaml:"base_time" default:"5s" min:"1ms"`
	// The longest time.
	MaxTime time.Duration `yaml:"max_time" default:"2m" min:"1ms"`
	// The largest share of the endpoints that may be ejected at a time, though always one of several. 0: none ever is.
	MaxShare float64 `yaml:"max_share" default:"0.5" max:"1"`
	// When fewer than this share of the endpoints can be used, be it by ejection or by their health, all are: then
	// most of what looks sick is something else. 0: only when none can.
	PanicThreshold float64 `yaml:"panic_threshold" default:"0.3" max:"1"`
}

// HealthCheck asks endpoints for their health by grpc.health.v1.
type HealthCheck struct {
	// auto: where they offer it; others count as healthy. off: they are not asked.
	Mode string `yaml:"mode" default:"auto" enum:"auto,off"`
	// The service that is asked for; empty: the server as a whole.
	Service string `yaml:"service"`
}
