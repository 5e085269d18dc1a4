package config

import "time"

// Retry says when a call is tried again. Nothing of a call that may not be
// repeated is ever sent twice; what reached no backend may always be repeated.
type Retry struct {
	// How many attempts a call may have in all, hedges among them; 1: none is repeated.
	MaxAttempts int `yaml:"max_attempts" default:"3" min:"1" max:"10"`
	// The codes of a backend after which an idempotent call is tried again. RESOURCE_EXHAUSTED only where the backend
	// says when.
	Codes []string `yaml:"codes" default:"UNAVAILABLE" enum:"UNAVAILABLE,ABORTED,INTERNAL,UNKNOWN,DATA_LOSS,DEADLINE_EXCEEDED,RESOURCE_EXHAUSTED"`
	// The pause before the second attempt is a random part of this, and doubles with each further one.
	Backoff time.Duration `yaml:"backoff" default:"25ms" min:"1ms"`
	// The longest pause.
	MaxBackoff time.Duration `yaml:"max_backoff" default:"1s" min:"1ms"`
	// How long one attempt at a unary call that may be repeated is waited for before another one is made; 0: as long as
	// the call may take. It counts against its endpoint. The last attempt, and one at a call that may not be repeated,
	// have all that is left of the call's time.
	AttemptTimeout time.Duration `yaml:"attempt_timeout" default:"0s"`
	// How much of the messages of a caller that streams is kept, until it is answered, so that they can be sent again.
	ReplaySize Size `yaml:"replay_size" default:"64KiB" max:"16MiB"`
	// How many attempts there may be beyond the calls' first ones.
	Budget RetryBudget `yaml:"budget"`
	// When a second attempt is made beside the first.
	Hedge Hedge `yaml:"hedge"`
}

// RetryBudget bounds what retries and hedges add to a backend's load, over all its callers.
type RetryBudget struct {
	// Their share of the calls of the last ten seconds or so.
	Ratio float64 `yaml:"ratio" default:"0.2" max:"1"`
	// How many a second there may be besides, however few calls there are.
	MinPerSecond float64 `yaml:"min_per_second" default:"3" max:"1000"`
}

// Hedge makes a second attempt while the first has not answered; the first
// answer wins, and the other attempt is cancelled. Only methods with
// idempotency_level NO_SIDE_EFFECTS are hedged.
type Hedge struct {
	// Whether calls are hedged.
	Enabled bool `yaml:"enabled" default:"false"`
	// How long the first attempt is waited for; 0: as long as 95 % of the method's latest calls took.
	Delay time.Duration `yaml:"delay" default:"0s"`
}
