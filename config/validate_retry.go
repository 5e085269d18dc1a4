package config

import "slices"

func (v *validator) retry(r *Retry, section string) {
	for i, code := range r.Codes {
		if slices.Contains(r.Codes[:i], code) {
			v.fault(indexPath(section+".codes", i), "%s stands in the list already", code)
		}
	}
	if r.MaxBackoff < r.Backoff {
		v.fault(section+".max_backoff", "is shorter than backoff, %v, which is the first pause", r.Backoff)
	}
}

// warnRetry tells of keys of a backend that do nothing.
func (v *validator) warnRetry(b *Backend, section string) {
	r := &b.Retry
	longest := b.Timeout
	for _, t := range b.MethodTimeouts {
		if t == 0 || longest == 0 {
			longest = 0
			break
		}
		longest = max(longest, t)
	}
	if longest > 0 && r.AttemptTimeout >= longest {
		v.fault(section+".attempt_timeout", "does nothing but for routes with a timeout of their own: the backend's, %v, ends calls before", longest)
	}
	switch {
	case r.Hedge.Enabled && r.MaxAttempts == 1:
		v.fault(section+".hedge.enabled", "does nothing: max_attempts is 1, and a hedge is a second attempt")
	case r.Hedge.Enabled && r.Budget.Ratio == 0 && r.Budget.MinPerSecond == 0:
		v.fault(section+".hedge.enabled", "does nothing: the budget has nothing in it")
	case !r.Hedge.Enabled && r.Hedge.Delay > 0:
		v.fault(section+".hedge.delay", "does nothing: hedge.enabled is false")
	}
}
