package config

import (
	"slices"
)

// maxLastGood is how much the good responses of one route may take before that
// is worth a warning.
const maxLastGood = 1 << 30

// setsPolicy tells whether a route says anything about its calls.
func (r *Route) setsPolicy() bool {
	return r.Auth != "" || r.Timeout != 0 || r.LogBodies || r.Forms || !r.Headers.IsZero() ||
		r.Idempotent || r.IdempotencyKey || r.MaxAttempts != 0 || r.Priority != "" ||
		r.Fallback != nil || r.Outcome != nil || r.To != "" || r.FanOut != nil || len(r.Canary) > 0 ||
		!r.Limits.IsZero()
}

// routePolicies checks what a route says of calls that fail, or of where they go.
func (v *validator) routePolicies(c *Config, r *Route, section string) {
	if r.Fallback != nil {
		v.fallback(c, r, section)
	}
	if r.Outcome != nil {
		v.outcome(r.Outcome, section+".outcome")
	}
	if r.FanOut != nil && r.To != "all" {
		v.fault(section+".fan_out", "does nothing without to: all")
	}
	if r.To == "all" {
		for _, o := range []option{
			{"fallback", r.Fallback != nil}, {"outcome", r.Outcome != nil}, {"canary", len(r.Canary) > 0},
			{"max_attempts", r.MaxAttempts != 0}, {"idempotent", r.Idempotent}, {"idempotency_key", r.IdempotencyKey},
		} {
			if o.set {
				v.fault(keyPath(section, o.key), "is for calls that go to one endpoint, and not for to: all")
			}
		}
	}
	v.canaries(r.Canary, section+".canary")
	v.limits(c, &r.Limits, section+".limits")
}

func (v *validator) fallback(c *Config, r *Route, route string) {
	f, section := r.Fallback, route+".fallback"
	v.exactlyOne(section, "what answers in place of the backend", []option{
		{"response", f.Response != ""}, {"backend", f.Backend != ""}, {"last_good", f.LastGood != nil},
	})
	if len(f.On) == 0 {
		v.fault(section+".on", "is empty: nothing would ever be answered")
	}
	if f.Backend == "" {
		return
	}
	key := section + ".backend"
	switch known := slices.ContainsFunc(c.Backends, func(b Backend) bool { return b.Name == f.Backend }); {
	case !known:
		names := make([]string, len(c.Backends))
		for i, b := range c.Backends {
			names[i] = b.Name
		}
		hint := ""
		if near := Nearest(f.Backend, names); near != "" && v.show(key, f.Backend) == quote(f.Backend) {
			hint = "; did you mean " + quote(near) + "?"
		}
		v.fault(key, "there is no backend %s%s", v.show(key, f.Backend), hint)
	case r.Backend == "":
		v.fault(key, "both backends serve the method: say with the route's own backend which is called first")
	case r.Backend == f.Backend:
		v.fault(key, "is the backend that it is to stand in for")
	}
}

func (v *validator) outcome(o *Outcome, section string) {
	if o.Field == "" {
		v.missing(section, "needs field")
	} else if key := section + ".field"; !isFullName(o.Field) {
		v.fault(key, "%s is not the name of a field, or several with dots between them", v.show(key, o.Field))
	}
	if len(o.OK) == 0 {
		v.fault(section+".ok", "is empty: no response would be a success")
	}
	for i, value := range o.OK {
		if slices.Contains(o.OK[:i], value) {
			key := indexPath(section+".ok", i)
			v.fault(key, "%s stands in the list already", v.show(key, value))
		}
	}
}

// canaries checks a list of canaries, of a route or a backend.
func (v *validator) canaries(all []Canary, section string) {
	for i := range all {
		canary, at := &all[i], indexPath(section, i)
		if len(canary.Match) == 0 {
			v.missing(at, "needs match")
		}
		switch key := at + ".header"; {
		case canary.Header == "":
			if canary.Value != "" {
				v.fault(at+".value", "does nothing without header")
			}
		case !isMetadataKey(canary.Header):
			v.fault(key, "%s is not a metadata key: lower-case letters, digits, dashes, dots and underscores", v.show(key, canary.Header))
		case ReservedHeader(canary.Header):
			v.fault(key, "%s is not for rules: it never reaches a backend", v.show(key, canary.Header))
		}
	}
}

// warnRoutePolicies finds what is allowed but probably not meant.
func (v *validator) warnRoutePolicies(c *Config, r *Route, section string) {
	v.warnCanaries(r.Canary, section+".canary")
	isItsOwn := func(b Backend) bool { return b.Name == r.Backend }
	if i := slices.IndexFunc(c.Backends, isItsOwn); i >= 0 && len(r.Canary) > 0 && c.Backends[i].whyNoCanary() != "" {
		v.fault(section+".canary", "does nothing: %s", c.Backends[i].whyNoCanary())
	}
	if f := r.Fallback; f != nil && f.LastGood != nil {
		if most := int64(f.LastGood.Entries) * int64(f.LastGood.MaxSize); most > maxLastGood || most < 0 {
			v.fault(section+".fallback.last_good", "may take %d MiB of memory: entries times max_size", most>>20)
		}
	}
}
