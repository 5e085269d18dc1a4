package routes

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// A policy is what routes of config say about a method's calls. Its zero value
// leaves everything to the backend.
type policy struct {
	auth           string // as config has it: required, none, or empty
	timeout        time.Duration
	logBodies      bool
	forms          bool
	headers        []config.Headers // the more general first
	idempotent     bool
	idempotencyKey bool
	maxAttempts    int
	priority       string
	limits         config.Limits
	to             string // as config has it: one, all, or empty
	fallback       *Fallback
	outcome        *Outcome
	fanOut         *config.FanOut
	canary         []config.Canary
}

// over lays p over a more general policy. What goes to all endpoints has no use
// for what the general one says of calls to one.
func (p policy) over(general policy) policy {
	merged := policy{
		auth:           cmp.Or(p.auth, general.auth),
		timeout:        cmp.Or(p.timeout, general.timeout),
		logBodies:      p.logBodies || general.logBodies,
		forms:          p.forms || general.forms,
		headers:        slices.Concat(general.headers, p.headers),
		idempotent:     p.idempotent || general.idempotent,
		idempotencyKey: p.idempotencyKey || general.idempotencyKey,
		maxAttempts:    cmp.Or(p.maxAttempts, general.maxAttempts),
		priority:       cmp.Or(p.priority, general.priority),
		limits:         limitsOver(p.limits, general.limits),
		to:             cmp.Or(p.to, general.to),
		fallback:       cmp.Or(p.fallback, general.fallback),
		outcome:        cmp.Or(p.outcome, general.outcome),
		fanOut:         cmp.Or(p.fanOut, general.fanOut),
		canary:         p.canary,
	}
	if len(p.canary) == 0 {
		merged.canary = general.canary
	}
	if p.to == "all" {
		merged.fallback, merged.outcome, merged.canary, merged.idempotencyKey, merged.maxAttempts = nil, nil, nil, false, 0
	}
	return merged
}

// limitsOver lays what a route bounds over what a more general one does. A rate
// goes with what it is counted over.
func limitsOver(l, general config.Limits) config.Limits {
	merged := config.Limits{
		Rate: l.Rate, Per: l.Per, Burst: l.Burst,
		Concurrency:    cmp.Or(l.Concurrency, general.Concurrency),
		Daily:          cmp.Or(l.Daily, general.Daily),
		Monthly:        cmp.Or(l.Monthly, general.Monthly),
		MaxBody:        cmp.Or(l.MaxBody, general.MaxBody),
		Streams:        cmp.Or(l.Streams, general.Streams),
		StreamLifetime: cmp.Or(l.StreamLifetime, general.StreamLifetime),
	}
	if l.Rate == 0 {
		merged.Rate, merged.Per, merged.Burst = general.Rate, general.Per, general.Burst
	}
	return merged
}

// forOne tells whether it says something that only calls to one endpoint have a
// use for.
func (p policy) forOne() bool {
	return p.fallback != nil || p.outcome != nil || len(p.canary) > 0 || p.idempotencyKey || p.maxAttempts != 0
}

// checkOver refuses what a route says in vain, as its method's calls go to all
// endpoints.
func (b *builder) checkOver(p policy, r *explicitRoute) {
	if r.method.policy.to == "all" && p.to == "" && p.forOne() {
		b.faultf(r.key, r.method.name, "has policies for calls that go to one endpoint, but the method's calls go to all: set to: one")
	}
}

// policyOf compiles what a config route says of its method.
func (b *builder) policyOf(r *explicitRoute) policy {
	p := policy{
		auth: r.Auth, timeout: r.Timeout, logBodies: r.LogBodies, forms: r.Forms,
		idempotent: r.Idempotent, idempotencyKey: r.IdempotencyKey, maxAttempts: r.MaxAttempts, priority: r.Priority,
		limits: r.Limits, to: r.To, canary: r.Canary,
	}
	if !r.Headers.IsZero() {
		p.headers = []config.Headers{r.Headers}
	}
	for _, unary := range []struct {
		key string
		set bool
	}{{".to", r.To == "all"}, {".outcome", r.Outcome != nil}, {".fallback", r.Fallback != nil}} {
		if unary.set && (r.method.descriptor.IsStreamingClient() || r.method.descriptor.IsStreamingServer()) {
			b.fault(r.key+unary.key, r.method.name, errors.New("is for methods that do not stream"))
			r.To, r.Outcome, r.Fallback, p.to = "", nil, nil, ""
		}
	}
	if r.To == "all" {
		if be := &r.method.backend.Backend; strings.HasPrefix(be.Target, "xds:") {
			b.faultf(r.key+".to", r.method.name, "all are not known where xDS finds the endpoints, as it does those of backend %s", be.Name)
		}
		fanOut := config.DefaultFanOut()
		p.fanOut = cmp.Or(r.FanOut, &fanOut)
	}
	if r.Outcome != nil {
		var key string
		var err error
		if p.outcome, key, err = compileOutcome(r.Outcome, r.method.descriptor.Output()); err != nil {
			b.fault(r.key+".outcome"+key, r.method.name, err)
		}
	}
	if r.Fallback != nil {
		var key string
		var err error
		if p.fallback, key, err = b.compileFallback(r.method, r.Fallback, r.Idempotent); err != nil {
			b.fault(r.key+".fallback"+key, r.method.name, err)
		}
	}
	return p
}

// apply puts a policy into a route that has its backend's.
func (p policy) apply(r *Route) {
	r.Idempotent = p.idempotent || isIdempotent(r.Descriptor)
	r.IdempotencyKey = p.idempotencyKey
	r.MaxAttempts = p.maxAttempts
	r.Priority = cmp.Or(p.priority, "normal")
	r.Limits = p.limits
	if p.to == "all" {
		r.FanOut = p.fanOut
		r.HashField, r.HashHeader, r.Canary = nil, "", nil
		return
	}
	r.Fallback, r.Outcome = p.fallback, p.outcome
	if len(p.canary) > 0 {
		r.Canary = p.canary
	}
}

// hashField finds the field of a method's request that ring_hash hashes; nil:
// none, or the method's callers stream.
func hashField(m *method) *transcode.Field {
	b := &m.backend.Backend.Balancer
	if b.HashField == "" || m.descriptor.IsStreamingClient() {
		return nil
	}
	f, err := transcode.CompileField(m.descriptor.Input(), b.HashField)
	if err != nil {
		return nil // the app is hashed; checkHashField tells where no method has it
	}
	return f
}

// checkHashField refuses a field that no method of the backend has.
func (b *builder) checkHashField(be *backend) {
	name := be.Backend.Balancer.HashField
	if name == "" || len(be.methods) == 0 {
		return
	}
	if !slices.ContainsFunc(be.methods, func(m *method) bool { return hashField(m) != nil }) {
		b.faultf(be.key+".balancer.hash_field", "", "no request of backend %s has a field %s that could be hashed: "+
			"an integer, bool, enum or string, in messages that are not repeated", be.Backend.Name, name)
	}
}

// idempotency is what a method says of itself.
func idempotency(m protoreflect.MethodDescriptor) descriptorpb.MethodOptions_IdempotencyLevel {
	options, ok := m.Options().(*descriptorpb.MethodOptions)
	if !ok {
		return descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
	}
	return options.GetIdempotencyLevel()
}

// hasNoSideEffects tells whether a method promises that by its
// idempotency_level.
func hasNoSideEffects(m protoreflect.MethodDescriptor) bool {
	return idempotency(m) == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// isIdempotent tells whether a method says that it may be called again.
func isIdempotent(m protoreflect.MethodDescriptor) bool {
	return hasNoSideEffects(m) || idempotency(m) == descriptorpb.MethodOptions_IDEMPOTENT
}
