package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
)

// Calls counts and times calls, by backend, route and protocol.
type Calls struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec

	business  *prometheus.CounterVec
	fallbacks *prometheus.CounterVec

	mu    sync.Mutex
	known map[string]map[string]bool // routes that have series, by backend
}

// maxRoutes bounds the routes of one backend that have series of their own. A
// backend whose descriptors change all the time must not fill the memory;
// beyond the bound its new routes share the label "other".
const maxRoutes = 4096

// NewCalls registers rpcgate_calls_total, rpcgate_call_duration_seconds,
// rpcgate_calls_in_flight, rpcgate_business_failures_total and
// rpcgate_fallbacks_total. A nil reg leaves them unregistered.
func NewCalls(reg prometheus.Registerer) *Calls {
	labels := []string{"backend", "route", "protocol"}
	return &Calls{
		known: map[string]map[string]bool{},
		total: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpcgate_calls_total",
			Help: "Calls that ended, by the code that the caller saw. route is empty for calls that met no route.",
		}, append(labels[:len(labels):len(labels)], "code"))),
		duration: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rpcgate_call_duration_seconds",
			Help: "How long calls took, from their headers to their end; streams as a whole.",
			// Classic buckets for servers that do not scrape native histograms: 1 ms to 30 s.
			Buckets:                         []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
			NativeHistogramBucketFactor:     1.1, // Prometheus' own advice: within 10 %
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, labels)),
		inFlight: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rpcgate_calls_in_flight",
			Help: "Calls that have begun and not ended.",
		}, labels)),
		business: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpcgate_business_failures_total",
			Help: "Calls whose response the route's outcome finds to be no success, whatever their code.",
		}, []string{"backend", "route"})),
		fallbacks: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpcgate_fallbacks_total",
			Help: "Calls that were answered in the backend's place, by kind: static, backend or last-good.",
		}, []string{"backend", "route", "kind"})),
	}
}

// Bind returns the observer of the calls that come to route by protocol. It is
// called when the route table is built, never per call. Observers bound with the
// same labels share their series, so counts go on across reloads.
func (c *Calls) Bind(backend, route, protocol string) *CallObserver {
	route = c.bounded(backend, route)
	return &CallObserver{
		total:    c.total.MustCurryWith(prometheus.Labels{"backend": backend, "route": route, "protocol": protocol}),
		duration: c.duration.WithLabelValues(backend, route, protocol),
		inFlight: c.inFlight.WithLabelValues(backend, route, protocol),
	}
}

// bounded is the label of a route.
func (c *Calls) bounded(backend, route string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	routes := c.known[backend]
	if routes == nil {
		routes = map[string]bool{}
		c.known[backend] = routes
	}
	if !routes[route] && len(routes) >= maxRoutes {
		return "other"
	}
	routes[route] = true
	return route
}

// BindUnrouted returns the observer of the calls that come by protocol and meet
// no route: their backend and route are empty, whatever they asked for.
func (c *Calls) BindUnrouted(protocol string) *CallObserver { return c.Bind("", "", protocol) }

// CallObserver observes the calls of one route and protocol. Its methods may be
// called at once from many goroutines; they hash no labels and, once each code
// was seen, allocate nothing.
type CallObserver struct {
	total    *prometheus.CounterVec // wants only the code
	duration prometheus.Observer
	inFlight prometheus.Gauge
	// byCode is filled as codes are first seen: most routes see two or three of them, and an unused
	// series costs the scraper as much as a used one.
	byCode [codeCount]atomic.Pointer[prometheus.Counter]
}

// Start notes that a call began. Each Start needs one Done.
func (o *CallObserver) Start() { o.inFlight.Inc() }

// Done notes that a call ended with code after d.
func (o *CallObserver) Done(code codes.Code, d time.Duration) {
	o.inFlight.Dec()
	o.duration.Observe(d.Seconds())
	i := codeIndex(code)
	counter := o.byCode[i].Load()
	if counter == nil {
		// Two goroutines may both come here; the vector gives both the same counter.
		bound := o.total.WithLabelValues(codeName(i))
		counter = &bound
		o.byCode[i].Store(counter)
	}
	(*counter).Inc()
}
