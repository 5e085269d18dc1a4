package config

import "time"

// Limiting says what apps may use, and what happens when Redis, which the
// gateways share their counts in, cannot be asked.
type Limiting struct {
	// What each app may use whose own record does not say.
	App Limits `yaml:"app"`
	// What each token may use whose own record does not say.
	Token Limits `yaml:"token"`
	// What becomes of calls with a rate or a quota while Redis cannot be asked. local: each gateway lets its share of
	// the limit through. open: all pass. closed: none does.
	StoreDown string `yaml:"store_down" default:"local" enum:"local,open,closed"`
	// How many gateways share the limits, for the share that each may let through by itself; 0: as many as are seen in
	// Redis.
	Gateways int `yaml:"gateways" default:"0" max:"10000"`
	// Tell callers of their limits: RateLimit and RateLimit-Policy.
	Headers bool `yaml:"headers" default:"true"`
}

// Limits bound what somebody may use. Where several apply to a call (the app's,
// the token's, the route's), it must keep all of them. The zero value bounds
// nothing.
type Limits struct {
	// Calls in each `per`, over all gateways together; 0: as many as come.
	Rate int `yaml:"rate" json:"rate,omitzero" default:"0" max:"1000000000"`
	// What the rate is counted over.
	Per time.Duration `yaml:"per" json:"per,omitzero" default:"1s" min:"1s" max:"24h"`
	// How many calls may come at once after a pause; 0: as many as the rate has in one `per`.
	Burst int `yaml:"burst" json:"burst,omitzero" default:"0" max:"1000000000"`
	// Calls in flight, in each gateway; streams count; 0: as many as come.
	Concurrency int `yaml:"concurrency" json:"concurrency,omitzero" default:"0" max:"1000000000"`
	// Calls in a day, by UTC, over all gateways together; 0: as many as come.
	Daily int `yaml:"daily" json:"daily,omitzero" default:"0" max:"1000000000000"`
	// Calls in a calendar month, by UTC, over all gateways together; 0: as many as come.
	Monthly int `yaml:"monthly" json:"monthly,omitzero" default:"0" max:"1000000000000"`
	// How large a request body, or one message of a stream, may be; 0: as large as the listener allows.
	MaxBody Size `yaml:"max_body" json:"max_body,omitzero" default:"0" max:"1GiB"`
	// Streams in flight, in each gateway; 0: as many as come.
	Streams int `yaml:"streams" json:"streams,omitzero" default:"0" max:"1000000000"`
	// How long a stream may last; 0: as long as its route allows.
	StreamLifetime time.Duration `yaml:"stream_lifetime" json:"stream_lifetime,omitzero" default:"0s"`
}

// IsZero tells whether nothing is bounded. What a rate is counted over bounds
// nothing by itself.
func (l Limits) IsZero() bool {
	l.Per = 0
	return l == Limits{}
}
