package config

import "time"

// Usage says how it is counted what apps use, in Redis, by app, route and day.
type Usage struct {
	// How often what was counted is added to Redis; a gateway that is killed loses what it counted since. 0: nothing is
	// counted.
	Interval time.Duration `yaml:"interval" default:"2s" max:"1m"`
	// How long a day's usage is kept in Redis, from its last call on. At least a day.
	Keep time.Duration `yaml:"keep" default:"9600h"`
}
