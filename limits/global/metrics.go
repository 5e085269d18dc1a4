package global

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/limits"
)

type metrics struct{ asks *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer, l *Limiter) (*metrics, error) {
	m := &metrics{asks: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rpcgate_limits_refills_total",
		Help: "Questions to Redis for rates and quotas, by outcome: given (all that was wanted), short, returned, or failed.",
	}, []string{"outcome"})}
	if reg == nil {
		return m, nil
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rpcgate_limits_store_up",
		Help: "1 while Redis answers questions for rates and quotas.",
	}, func() float64 {
		if l.down.Load() {
			return 0
		}
		return 1
	})
	known := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rpcgate_limits_remembered",
		Help: "Limits (of an app, a token, or an app and a method) that the gateway remembers.",
	}, func() float64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return float64(len(l.known))
	})
	for _, c := range []prometheus.Collector{m.asks, up, known} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) asked(q limits.Question, a limits.Answer, err error) {
	outcome := "given"
	switch {
	case err != nil:
		outcome = "failed"
	case q.Buy < 0:
		outcome = "returned"
	case a.Given < q.Pay+q.Buy:
		outcome = "short"
	}
	m.asks.WithLabelValues(outcome).Inc()
}
