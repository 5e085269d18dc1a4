package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Bounds counts the calls that a bound refused or ended.
type Bounds struct{ calls *prometheus.CounterVec }

// NewBounds registers rpcgate_bounded_calls_total. A nil reg leaves it
// unregistered.
func NewBounds(reg prometheus.Registerer) *Bounds {
	return &Bounds{calls: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rpcgate_bounded_calls_total",
		Help: "Calls that a bound refused or ended, by bound (concurrency, streams, stream_lifetime, body) and by whose it is: the app's, the token's, or the app's for the route's method.",
	}, []string{"bound", "of"}))}
}

// Counter returns the counter of one bound. It is for when the gateway is made,
// never per call.
func (b *Bounds) Counter(bound, of string) prometheus.Counter {
	return b.calls.WithLabelValues(bound, of)
}
