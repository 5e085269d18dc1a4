package rpcproxy

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/limits"
)

// BusyError says that as many calls to the backend are in flight as there may be
// at once, of all apps or of this one. Nothing of the call was read or sent.
type BusyError struct {
	// The backend's name.
	Backend string
	// How many calls there may be.
	Limit int
	// There is room, but the app has its share.
	Share bool
}

func (e *BusyError) Error() string {
	if e.Share {
		return fmt.Sprintf("backend %q is busy: this app has its share of the %d calls to it that there may be at once", e.Backend, e.Limit)
	}
	return fmt.Sprintf("backend %q is busy: %d calls to it are in flight, as many as there may be", e.Backend, e.Limit)
}

// bulkhead keeps the calls to one backend from taking what those to others need.
// A call holds its place from before its message is read until it is over, pauses
// between attempts included; a stream for as long as it lasts.
type bulkhead struct {
	limit   *limits.Concurrency
	refused prometheus.Counter
	begin   time.Time
	next    atomic.Int64 // when limit is to be adjusted: nanoseconds after begin
}

func newBulkhead(backend string, limit *limits.Concurrency, m *metrics) *bulkhead {
	return &bulkhead{limit: limit, refused: m.bulkhead.refused.WithLabelValues(backend), begin: time.Now()}
}

// enter takes a place for a tenant's call, which limit.Release gives back.
func (b *bulkhead) enter(backend string, t limits.Tenant) error {
	v := b.limit.Acquire(t)
	if v == limits.Admitted {
		return nil
	}
	b.refused.Inc()
	return &BusyError{Backend: backend, Limit: b.limit.View().Limit, Share: v == limits.OverShare}
}

// observe tells an adaptive limit how long the backend took for a unary call that
// began then. An answer says it, whatever is in it, and so does a limit of the
// gateway's own that ran out; what did not get to the backend, or was given up by
// its caller, does not.
func (b *bulkhead) observe(c *call, began time.Time, err error) {
	timeout, late := errors.AsType[*TimeoutError](err)
	answered := err == nil || is[*StatusError](err) || late && !timeout.CallerDeadline && !timeout.Unsent
	now := time.Now()
	if answered {
		c.method.kind.Observe(now.Sub(began))
	}
	due := b.next.Load()
	if since := int64(now.Sub(b.begin)); since >= due && b.next.CompareAndSwap(due, since+int64(limits.AdjustInterval)) {
		b.limit.Adjust()
	}
}

// Concurrency tells how many calls are in flight, and how many there may be.
func (b *Backend) Concurrency() limits.ConcurrencyView { return b.bulkhead.limit.View() }

// bulkheadMetrics are the metrics of bulkheads.
type bulkheadMetrics struct {
	refused  *prometheus.CounterVec // backend
	inFlight *prometheus.Desc       // backend
	limit    *prometheus.Desc       // backend
}

func newBulkheadMetrics() bulkheadMetrics {
	return bulkheadMetrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpcgate_backend_busy_total",
			Help: "Calls that were refused as there were as many to the backend as there may be.",
		}, []string{"backend"}),
		inFlight: prometheus.NewDesc("rpcgate_backend_calls_in_flight",
			"Calls to a backend that have begun and not ended; its limit counts them.", []string{"backend"}, nil),
		limit: prometheus.NewDesc("rpcgate_backend_calls_limit",
			"How many calls to a backend there may be at once; absent where there is no limit.", []string{"backend"}, nil),
	}
}

func (m bulkheadMetrics) describe(ch chan<- *prometheus.Desc) {
	m.refused.Describe(ch)
	ch <- m.inFlight
	ch <- m.limit
}

// collect gives one backend's gauges.
func (m bulkheadMetrics) collect(ch chan<- prometheus.Metric, name string, v limits.ConcurrencyView) {
	ch <- prometheus.MustNewConstMetric(m.inFlight, prometheus.GaugeValue, float64(v.InFlight), name)
	if v.Limit > 0 {
		ch <- prometheus.MustNewConstMetric(m.limit, prometheus.GaugeValue, float64(v.Limit), name)
	}
}
