package config

import "time"

// Outcome reads from a response whether the call was a success.
type Outcome struct {
	// The field of the response that says so, such as code or result.status: an integer, a bool, an enum or a string.
	Field string `yaml:"field" jsonschema:"required"`
	// The values that mean success; an enum's names or numbers.
	OK []string `yaml:"ok" default:"0"`
	// Whether any other value counts as a failure in the breaker, too.
	Breaker bool `yaml:"breaker" default:"false"`
}

// Fallback answers in place of a backend that cannot. Exactly one of Response,
// Backend and LastGood says how. The answer is marked by x-rpcgate-fallback.
type Fallback struct {
	// The codes of failed calls that it stands in for; what the caller did wrong is never among them.
	On []string `yaml:"on" default:"UNAVAILABLE,DEADLINE_EXCEEDED,RESOURCE_EXHAUSTED" enum:"UNAVAILABLE,DEADLINE_EXCEEDED,RESOURCE_EXHAUSTED,INTERNAL,UNKNOWN,ABORTED,DATA_LOSS,UNIMPLEMENTED"`
	// A fixed response, as the JSON of the response message.
	Response string `yaml:"response"`
	// Another backend that serves the method, too.
	Backend string `yaml:"backend"`
	// The last good response to the same request, with the same metadata, of the same app and token.
	LastGood *LastGood `yaml:"last_good"`
}

// LastGood bounds the responses that are kept.
type LastGood struct {
	// How old a response may be.
	MaxAge time.Duration `yaml:"max_age" default:"5m" min:"1ms"`
	// How many are kept.
	Entries int `yaml:"entries" default:"1024" min:"1"`
	// How large one may be.
	MaxSize Size `yaml:"max_size" default:"64KiB" min:"1B" max:"16MiB"`
}

// FanOut sends one call to every endpoint of the backend.
type FanOut struct {
	// Whose success makes the call one: all endpoints', any one's, or none's: then the answer only lists what each
	// said.
	Require string `yaml:"require" default:"all" enum:"all,any,none"`
	// How many endpoints are called at once.
	Concurrency int `yaml:"concurrency" default:"16" min:"1" max:"1024"`
	// How many endpoints may be called at most; with more the call is refused.
	MaxEndpoints int `yaml:"max_endpoints" default:"256" min:"1" max:"4096"`
}
