package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// OutcomeObserver counts what a call's code does not tell, for the calls of one
// route. Its methods may be called at once from many goroutines.
type OutcomeObserver struct {
	business  func() prometheus.Counter
	fallbacks *prometheus.CounterVec // wants only the kind
	failures  atomic.Pointer[prometheus.Counter]
}

// BindOutcomes returns the observer of a route's calls. Like [Calls.Bind] it is
// called when the route table is built.
func (c *Calls) BindOutcomes(backend, route string) *OutcomeObserver {
	route = c.bounded(backend, route)
	return &OutcomeObserver{
		business:  func() prometheus.Counter { return c.business.WithLabelValues(backend, route) },
		fallbacks: c.fallbacks.MustCurryWith(prometheus.Labels{"backend": backend, "route": route}),
	}
}

// BusinessFailure notes a call whose response the route's outcome finds to be no
// success, whatever its code.
func (o *OutcomeObserver) BusinessFailure() {
	counter := o.failures.Load()
	if counter == nil { // the series is made when it is first needed; two may come here and get the same one
		bound := o.business()
		counter = &bound
		o.failures.Store(counter)
	}
	(*counter).Inc()
}

// Fallback notes a call that was answered in the backend's place, by kind:
// static, backend or last-good.
func (o *OutcomeObserver) Fallback(kind string) { o.fallbacks.WithLabelValues(kind).Inc() }
