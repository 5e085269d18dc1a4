package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Overload tells of the load that the gateway is under, and counts the calls that
// are shed for it.
type Overload struct {
	// The share of its own processors that the gateway uses.
	CPU prometheus.Gauge
	// How long, in seconds, its goroutines waited each time before they ran.
	QueueDelay prometheus.Gauge
	// The share of calls that is admitted while they wait for too long.
	Admitted prometheus.Gauge

	shed *prometheus.CounterVec
}

// NewOverload registers rpcgate_calls_shed_total and rpcgate_overload_*. A nil reg
// leaves them unregistered.
func NewOverload(reg prometheus.Registerer) *Overload {
	gauge := func(name, help string) prometheus.Gauge {
		return register(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	return &Overload{
		CPU: gauge("rpcgate_overload_cpu_ratio",
			"The share of its own processors that the gateway uses: of its cgroup's quota, or of GOMAXPROCS."),
		QueueDelay: gauge("rpcgate_overload_queue_delay_seconds",
			"How long goroutines that were ready waited before they ran, on average of late; a call does so some ten times."),
		Admitted: gauge("rpcgate_overload_admitted_ratio",
			"The share of calls that is admitted while they wait too long to be run; 1: all."),
		shed: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpcgate_calls_shed_total",
			Help: "Calls that were shed, by reason and by priority of their routes. max_calls: there were as many in flight as there may be; share: their app had more than its share of them; queue_delay: calls waited too long to be run; held_size: there were as many bytes held as there may be of their app.",
		}, []string{"reason", "priority"})),
	}
}

// Shed returns the counter of calls that are shed for a reason. It is for when
// the gateway is made, never per call.
func (o *Overload) Shed(reason, priority string) prometheus.Counter {
	return o.shed.WithLabelValues(reason, priority)
}
