package telemetry

import (
	"errors"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Build says which build runs.
type Build struct {
	Version  string // "v1.2.3", or "devel"
	Revision string // the commit, or ""
}

// NewRegistry returns a registry with the metrics of the process itself: the Go
// runtime's, the operating system's, and rpcgate_build_info. It is the
// process's own, not Prometheus' global one, so that two gateways can live in
// one process.
func NewRegistry(b Build) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rpcgate_build_info",
		Help: "Always 1; the labels say which build runs.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "revision": b.Revision, "goversion": runtime.Version(),
		},
	})
	info.Set(1)
	reg.MustRegister(
		info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return reg
}

// register registers c, or finds the equal one that is registered already (two
// gateways on one registry share their metrics). A nil reg leaves c
// unregistered. Any other failure is a mistake in the metric's definition and
// panics.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	if err == nil {
		return c
	}
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	panic(err)
}
