package rpcproxy

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// fleetEvents writes down and counts what becomes of a backend's endpoints. An
// endpoint that flaps is ejected for longer each time; yet there may be many.
type fleetEvents struct {
	log    *slog.Logger
	gate   lineGate
	panics lineGate // of lines about all endpoints, which the others must not crowd out

	ejections map[fleet.Reason]prometheus.Counter
}

func newFleetEvents(backend string, log *slog.Logger, m *metrics) *fleetEvents {
	e := &fleetEvents{log: log.With("backend", backend), ejections: map[fleet.Reason]prometheus.Counter{}}
	for _, reason := range fleet.Reasons() {
		e.ejections[reason] = m.fleets.ejections.WithLabelValues(backend, string(reason))
	}
	return e
}

// note takes in what happened.
func (e *fleetEvents) note(event fleet.Event) {
	if event.Kind == fleet.Ejected {
		e.ejections[event.Reason].Inc()
	}
	gate := &e.gate
	if event.Address == "" {
		gate = &e.panics
	}
	suppressed, ok := gate.take(false)
	if !ok {
		return
	}
	attrs := []any{slog.String("endpoint", event.Address)}
	switch {
	case event.Kind == fleet.Unmatched:
		attrs = []any{slog.String("match", event.Detail), slog.Int("endpoints", event.Endpoints)}
	case event.Address == "":
		attrs = []any{slog.Int("usable", event.Usable), slog.Int("endpoints", event.Endpoints)}
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	switch event.Kind {
	case fleet.Ejected:
		e.log.Warn("endpoint is ejected", append(attrs,
			slog.String("reason", string(event.Reason)), slog.String("detail", event.Detail), slog.Duration("for", event.For))...)
	case fleet.Readmitted:
		e.log.Info("endpoint is back", append(attrs, slog.Duration("after", event.For))...)
	case fleet.Unhealthy:
		e.log.Warn("endpoint says that it does not serve", attrs...)
	case fleet.Recovered:
		e.log.Info("endpoint may be called again", append(attrs, slog.Duration("after", event.For))...)
	case fleet.Lost:
		e.log.Warn("endpoint cannot be connected to", append(attrs, slog.String("error", event.Detail))...)
	case fleet.Found:
		e.log.Info("endpoint is connected to again", append(attrs, slog.Duration("after", event.For))...)
	case fleet.PanicBegan:
		e.log.Warn("too few endpoints are usable: all are used", attrs...)
	case fleet.PanicEnded:
		e.log.Info("enough endpoints are usable again", attrs...)
	case fleet.Unmatched:
		e.log.Warn("no endpoint has the metadata that a canary matches: its calls go to others", attrs...)
	}
}

// fleetMetrics are about endpoints, of all backends that share a Registerer. No
// label is an endpoint's address: there is no end to those.
type fleetMetrics struct {
	ejections *prometheus.CounterVec // backend, reason
	endpoints *prometheus.Desc       // backend, state
	panics    *prometheus.Desc       // backend
}

func newFleetMetrics() fleetMetrics {
	return fleetMetrics{
		ejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpcgate_ejections_total",
			Help: "How often endpoints were taken out of use for a while, by reason: consecutive_failures, success_rate, latency, or failed_trial of one that was out of use.",
		}, []string{"backend", "reason"}),
		endpoints: prometheus.NewDesc("rpcgate_endpoints",
			"Endpoints that discovery tells of, by state: ok, slow_start (new), ejected, unhealthy (by its own word), unreachable (no connection), unused (not in this gateway's subset).",
			[]string{"backend", "state"}, nil),
		panics: prometheus.NewDesc("rpcgate_endpoints_panic",
			"1 while so few endpoints are usable that calls go to all of them.", []string{"backend"}, nil),
	}
}

func (m *fleetMetrics) describe(ch chan<- *prometheus.Desc) {
	m.ejections.Describe(ch)
	ch <- m.endpoints
	ch <- m.panics
}

func (m *fleetMetrics) collect(ch chan<- prometheus.Metric, backend string, f *fleet.Fleet) {
	states, panicking := f.Count()
	for _, state := range fleet.States() {
		ch <- prometheus.MustNewConstMetric(m.endpoints, prometheus.GaugeValue, float64(states[state]), backend, string(state))
	}
	value := 0.0
	if panicking {
		value = 1
	}
	ch <- prometheus.MustNewConstMetric(m.panics, prometheus.GaugeValue, value, backend)
}
