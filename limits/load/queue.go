package load

import (
	"math"
	"runtime/metrics"
	"time"
)

// Queue measures how long goroutines wait between being ready to run and
// running. It is for one goroutine at a time.
type Queue struct {
	samples []metrics.Sample
	seen    []uint64

	waits, waited float64 // how many there were, and seconds, both fading
}

// fading is what is left of earlier measurements when another is made. The runtime
// looks at one wait in eight, and at few of them while the process is kept from
// running, and quotas are kept over periods of their own, so that a single interval
// says little.
const fading = 0.7

// NewQueue makes a Queue that measures from now on.
func NewQueue() *Queue {
	q := &Queue{samples: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
	q.Mean()
	q.waits, q.waited = 0, 0
	return q
}

// Mean is how long the waits were on average that ended of late: those since it
// was last asked, and, less and less, those before. It is the mean and not a
// quantile because of what waits there are: most are those of goroutines that are
// woken to run at once, however long the queue is that others stand in.
func (q *Queue) Mean() time.Duration {
	metrics.Read(q.samples)
	if q.samples[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0 // a runtime that does not have it
	}
	h := q.samples[0].Value.Float64Histogram()
	if q.seen == nil {
		q.seen = make([]uint64, len(h.Counts))
	}
	q.waits *= fading
	q.waited *= fading
	for i, n := range h.Counts {
		n := float64(n - q.seen[i])
		q.waits += n
		if lower := h.Buckets[i]; n > 0 && !math.IsInf(lower, 0) { // within a quarter, as buckets are
			q.waited += n * lower
		}
	}
	copy(q.seen, h.Counts)
	return time.Duration(q.waited / max(q.waits, 1) * float64(time.Second))
}
