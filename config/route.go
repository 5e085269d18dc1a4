package config

import "time"

// Route binds an HTTP method and path to a backend's method, or sets a policy
// for a method, or both.
type Route struct {
	// The method, package.Service/Method.
	Method string `yaml:"method" jsonschema:"required"`
	// The backend that serves it; may be left out where only one does. Where several do, it says which is called.
	Backend string `yaml:"backend"`
	// The HTTP binding. Absent: the route only sets policies, for every way in to the method.
	HTTP *HTTPRule `yaml:"http"`
	// Whether calls need a credential: required or none; empty: as the backend says.
	Auth string `yaml:"auth" enum:",required,none"`
	// How long a call may take, in place of the backend's timeout; 0: as the backend says.
	Timeout time.Duration `yaml:"timeout"`
	// The method may be called again with the same request without doing anything twice. Methods whose
	// idempotency_level says so need it not.
	Idempotent bool `yaml:"idempotent" default:"false"`
	// A call with the header Idempotency-Key is one that may be repeated: the backend tells by it that it has served
	// the call before. The header is passed on.
	IdempotencyKey bool `yaml:"idempotency_key" default:"false"`
	// How many attempts a call may have, in place of the backend's retry.max_attempts; 0: as the backend says.
	MaxAttempts int `yaml:"max_attempts" default:"0" max:"10"`
	// Which calls are shed last when there are too many: low, normal, high or critical; empty: normal.
	Priority string `yaml:"priority" enum:",low,normal,high,critical"`
	// What each app may use of this method, besides its limits for all of them.
	Limits Limits `yaml:"limits"`
	// What answers when the backend cannot.
	Fallback *Fallback `yaml:"fallback"`
	// Reads from the response whether the call was a success.
	Outcome *Outcome `yaml:"outcome"`
	// Where a call goes: one endpoint of the backend, or all of them.
	To string `yaml:"to" enum:",one,all"`
	// For to: all.
	FanOut *FanOut `yaml:"fan_out"`
	// Sends some calls to some endpoints, in place of the backend's canary.
	Canary []Canary `yaml:"canary"`
	// Write request and response bodies into the access log. They may hold personal data.
	LogBodies bool `yaml:"log_bodies" default:"false"`
	// Take application/x-www-form-urlencoded bodies, too.
	Forms bool `yaml:"forms" default:"false"`
	// Which headers go to the backend, and which come back, besides the backend's own rules.
	Headers Headers `yaml:"headers"`
}

// HTTPRule is a google.api.http rule: exactly one of the methods with a path
// template, a body and a response body.
type HTTPRule struct {
	// Path template for GET.
	Get string `yaml:"get"`
	// Path template for PUT.
	Put string `yaml:"put"`
	// Path template for POST.
	Post string `yaml:"post"`
	// Path template for DELETE.
	Delete string `yaml:"delete"`
	// Path template for PATCH.
	Patch string `yaml:"patch"`
	// Any other HTTP method.
	Custom *CustomRule `yaml:"custom"`
	// What the body is: "*" the whole message, a field's name, or empty for none.
	Body string `yaml:"body"`
	// The field of the answer that becomes the response body; empty: the whole answer.
	ResponseBody string `yaml:"response_body"`
	// Further bindings of the same method.
	AdditionalBindings []HTTPRule `yaml:"additional_bindings"`
}

// CustomRule is a path template for any HTTP method.
type CustomRule struct {
	// The HTTP method; `*` for all.
	Kind string `yaml:"kind" jsonschema:"required"`
	// The path template.
	Path string `yaml:"path" jsonschema:"required"`
}
