package config

import "time"

func (v *validator) breaker(b *Breaker, section string) {
	a, t := &b.Adaptive, &b.Threshold
	if a.K <= 1 {
		v.fault(section+".adaptive.k", "must be above 1, or calls would be shed while the backend is well")
	}
	if a.Buckets > 0 && a.Window/time.Duration(a.Buckets) < time.Millisecond {
		v.fault(section+".adaptive.buckets", "are too many: each must be 1ms of the window at least")
	}
	if b.Kind == "threshold" && t.ConsecutiveFailures == 0 && t.FailureRatio == 0 {
		v.missing(section+".threshold", "would never open: set consecutive_failures or failure_ratio")
	}
}

// warnBreaker finds what the kind of breaker does not look at.
func (v *validator) warnBreaker(b *Breaker, section string) {
	if b.Kind == "off" && b.Scope == "app" {
		v.fault(section+".scope", "does nothing: breakers are off")
	}
	if b.Kind != "threshold" && b.Threshold.FailureRatio > 0 {
		v.fault(section+".threshold.failure_ratio", "does nothing: the kind is not threshold")
	}
}
