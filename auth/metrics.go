package auth

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/credcache"
)

// metrics are the verifier's, beside those of its cache. Which credentials were
// accepted or refused is for the gateway to count.
type metrics struct {
	lookUps       *prometheus.HistogramVec
	revocations   *prometheus.CounterVec
	subscribed    prometheus.Gauge
	storeUp       prometheus.Gauge
	storeEvicts   prometheus.Gauge
	interruptions prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		lookUps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "rpcgate_auth_lookup_duration_seconds",
			Help:                        "How long Redis took to answer for a credential, by outcome: ok, not_found or failed.",
			Buckets:                     []float64{.0002, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"outcome"}),
		revocations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpcgate_auth_revocations_total",
			Help: "Revocations learnt, from a message or by a look-up.",
		}, []string{"from"}),
		subscribed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rpcgate_auth_revocations_subscribed",
			Help: "1 while revocations are being heard.",
		}),
		storeUp: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rpcgate_auth_store_up",
			Help: "1 while Redis answers look-ups.",
		}),
		storeEvicts: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rpcgate_auth_store_evicts",
			Help: "1 where Redis may drop tokens when it is full (maxmemory-policy).",
		}),
		interruptions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rpcgate_auth_revocations_interruptions_total",
			Help: "How often revocations could not be heard any more.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.lookUps, m.revocations, m.subscribed, m.storeUp, m.storeEvicts, m.interruptions} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) lookedUp(d time.Duration, err error) {
	outcome := "failed"
	switch {
	case err == nil:
		outcome = "ok"
	case errors.Is(err, credcache.ErrNotFound):
		outcome = "not_found"
	}
	m.lookUps.WithLabelValues(outcome).Observe(d.Seconds())
}

func stack() string { return string(debug.Stack()) }
