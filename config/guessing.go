package config

import "time"

// Guessing bounds the attempts to guess credentials. What counts is an attempt
// with a token that is well-formed and no app's; who fails too often may for a
// while present only credentials that this gateway knows to be good.
type Guessing struct {
	// Failed attempts in each `per` from one source address; all of an IPv6 /64 count as one. 0: no limit.
	PerAddress int `yaml:"per_address" default:"60" max:"1000000"`
	// Failed attempts in each `per` for one app id. Beyond it the id is asked for in Redis only from addresses that have
	// not failed of late, and for those 20 times as often. 0: no limit.
	PerApp int `yaml:"per_app" default:"600" max:"1000000"`
	// What the attempts are counted over.
	Per time.Duration `yaml:"per" default:"1m" min:"1s" max:"1h"`
}
