package rpcproxy

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of all backends that share a Registerer.
type metrics struct {
	attempts    *prometheus.CounterVec   // backend, method, code
	duration    *prometheus.HistogramVec // backend, method
	rejections  *prometheus.CounterVec   // backend, method
	transitions *prometheus.CounterVec   // backend, method, to
	dials       *prometheus.CounterVec   // backend, result
	retired     *prometheus.CounterVec   // backend, reason

	repeats  repeatMetrics
	bulkhead bulkheadMetrics
	fleets   fleetMetrics

	conns    *prometheus.Desc // backend, state
	dialing  *prometheus.Desc // backend, state
	breaker  *prometheus.Desc // backend, method
	openApps *prometheus.Desc // backend, method

	// Gauges are read from the backends when they are asked for. Around a reload
	// several backends of one name may live for a while; the newest is read, which
	// need not be the one that stays: a reload may yet be refused.
	mu       sync.Mutex
	backends map[string][]*Backend // the newest last; none is empty
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		attempts: counter("rpcgate_attempts_total",
			"Attempts to call a backend that ended, by the code they ended with.", "backend", "method", "code"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rpcgate_attempt_duration_seconds",
			Help: "How long attempts to call a backend took; streams from beginning to end.",
			Buckets: []float64{
				.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
			},
			NativeHistogramBucketFactor:    1.1,
			NativeHistogramMaxBucketNumber: 100,
		}, []string{"backend", "method"}),
		rejections: counter("rpcgate_breaker_rejections_total",
			"Calls that the breaker of a method refused.", "backend", "method"),
		transitions: counter("rpcgate_breaker_transitions_total",
			"How often breakers of a method changed by themselves, by the state that they changed to.", "backend", "method", "to"),
		dials: counter("rpcgate_pool_dials_total",
			"Connections that were made for a credential, by result: ok or error.", "backend", "result"),
		retired: counter("rpcgate_pool_retired_total",
			"Connections that were taken out of use, by reason: evicted, idle, revoked or shutdown.", "backend", "reason"),
		conns: prometheus.NewDesc("rpcgate_pool_conns",
			"Connections of a backend: live ones take calls, draining ones wait for their last calls to end.",
			[]string{"backend", "state"}, nil),
		dialing: prometheus.NewDesc("rpcgate_pool_dialing",
			"Connections to endpoints that are to be made: active ones are being made, waiting ones wait until fewer are.",
			[]string{"backend", "state"}, nil),
		breaker: prometheus.NewDesc("rpcgate_breaker_state",
			"How much the breaker of a method refuses: 0 nothing (closed), 1 some calls (half open), 2 nearly all (open). With scope app it is that of the app that fares worst.",
			[]string{"backend", "method"}, nil),
		openApps: prometheus.NewDesc("rpcgate_breaker_open_apps",
			"How many apps have calls of a method refused by a breaker of their own.",
			[]string{"backend", "method"}, nil),
		repeats:  newRepeatMetrics(),
		bulkhead: newBulkheadMetrics(),
		fleets:   newFleetMetrics(),
		backends: map[string][]*Backend{},
	}
	if reg == nil {
		return m, nil
	}
	err := reg.Register(m)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if shared, ok := already.ExistingCollector.(*metrics); ok {
			return shared, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) add(b *Backend) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backends[b.name] = append(m.backends[b.name], b)
}

func (m *metrics) remove(b *Backend) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := slices.DeleteFunc(m.backends[b.name], func(other *Backend) bool { return other == b })
	if m.backends[b.name] = left; len(left) == 0 {
		delete(m.backends, b.name)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	m.attempts.Describe(ch)
	m.duration.Describe(ch)
	m.rejections.Describe(ch)
	m.transitions.Describe(ch)
	m.dials.Describe(ch)
	m.retired.Describe(ch)
	for _, c := range m.repeats.all() {
		c.Describe(ch)
	}
	m.bulkhead.describe(ch)
	m.fleets.describe(ch)
	ch <- m.conns
	ch <- m.dialing
	ch <- m.breaker
	ch <- m.openApps
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.attempts.Collect(ch)
	m.duration.Collect(ch)
	m.rejections.Collect(ch)
	m.transitions.Collect(ch)
	m.dials.Collect(ch)
	m.retired.Collect(ch)
	for _, c := range m.repeats.all() {
		c.Collect(ch)
	}
	m.bulkhead.refused.Collect(ch)
	m.fleets.ejections.Collect(ch)
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, all := range m.backends {
		b := all[len(all)-1]
		m.bulkhead.collect(ch, name, b.Concurrency())
		m.fleets.collect(ch, name, b.fleet)
		live, draining := b.pool.size()
		direct, directDraining := b.direct.pool.size()
		live, draining = live+direct, draining+directDraining
		ch <- prometheus.MustNewConstMetric(m.conns, prometheus.GaugeValue, float64(live), name, "live")
		ch <- prometheus.MustNewConstMetric(m.conns, prometheus.GaugeValue, float64(draining), name, "draining")
		waiting, active := b.fleet.Dials().Counts()
		ch <- prometheus.MustNewConstMetric(m.dialing, prometheus.GaugeValue, float64(active), name, "active")
		ch <- prometheus.MustNewConstMetric(m.dialing, prometheus.GaugeValue, float64(waiting), name, "waiting")
		for _, method := range b.methods.all() {
			ch <- prometheus.MustNewConstMetric(m.breaker, prometheus.GaugeValue,
				float64(method.breaker.State()), name, method.label)
			ch <- prometheus.MustNewConstMetric(m.openApps, prometheus.GaugeValue,
				float64(method.breaker.OpenApps()), name, method.label)
		}
	}
}

// poolObserver counts what a backend's pool does.
func (m *metrics) poolObserver(backend string) poolObserver {
	ok, failed := m.dials.WithLabelValues(backend, "ok"), m.dials.WithLabelValues(backend, "error")
	retired := map[reason]prometheus.Counter{}
	for _, why := range []reason{reasonEvicted, reasonIdle, reasonRevoked, reasonShutdown} {
		retired[why] = m.retired.WithLabelValues(backend, string(why))
	}
	return poolObserver{
		dialed: func(err error) {
			if err != nil {
				failed.Inc()
				return
			}
			ok.Inc()
		},
		retired: func(why reason) { retired[why].Inc() },
	}
}
