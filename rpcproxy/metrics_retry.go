package rpcproxy

import "github.com/prometheus/client_golang/prometheus"

// repeatMetrics count attempts that are not a call's first, of all backends
// that share a Registerer.
type repeatMetrics struct {
	retries *prometheus.CounterVec // backend, method
	hedges  *prometheus.CounterVec // backend, method
	won     *prometheus.CounterVec // backend, method
	refused *prometheus.CounterVec // backend, method, reason
}

func newRepeatMetrics() repeatMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"backend", "method"}, labels...))
	}
	return repeatMetrics{
		retries: counter("rpcgate_retries_total", "Attempts that were begun because the one before had failed."),
		hedges:  counter("rpcgate_hedges_total", "Attempts that were begun beside one that took long."),
		won:     counter("rpcgate_hedges_won_total", "Hedges whose answer became the call's."),
		refused: counter("rpcgate_repeats_refused_total",
			"Retries and hedges that were due and not begun, by reason: budget (used up), deadline (too little time left).", "reason"),
	}
}

func (m *repeatMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.retries, m.hedges, m.won, m.refused}
}

// repeats are the counters of one method. They are made with it, so that they
// are 0 in the metrics before the first.
type repeats struct {
	retries, hedges, won prometheus.Counter
	noBudget, noTime     prometheus.Counter
}

func (m *repeatMetrics) of(backend, method string) repeats {
	return repeats{
		retries:  m.retries.WithLabelValues(backend, method),
		hedges:   m.hedges.WithLabelValues(backend, method),
		won:      m.won.WithLabelValues(backend, method),
		noBudget: m.refused.WithLabelValues(backend, method, "budget"),
		noTime:   m.refused.WithLabelValues(backend, method, "deadline"),
	}
}
