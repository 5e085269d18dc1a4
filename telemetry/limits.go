package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Limits counts what rates and quotas decide.
type Limits struct{ decisions *prometheus.CounterVec }

// NewLimits registers rpcgate_limit_decisions_total. A nil reg leaves it
// unregistered.
func NewLimits(reg prometheus.Registerer) *Limits {
	return &Limits{decisions: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rpcgate_limit_decisions_total",
		Help: "What rates and quotas decided of calls, by limit (app, token, route, daily, monthly) and outcome: granted, uncounted (Redis did not answer, and the call went on), exhausted, or store_down (it did not, and the call did not).",
	}, []string{"limit", "outcome"}))}
}

// Decision returns the counter of one limit and outcome. It is for when the gateway
// is made, never per call.
func (l *Limits) Decision(limit, outcome string) prometheus.Counter {
	return l.decisions.WithLabelValues(limit, outcome)
}
