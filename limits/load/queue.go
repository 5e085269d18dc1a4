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
}

// NewQueue makes a Queue that measures from now on.
func NewQueue() *Queue {
	q := &Queue{samples: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
	q.Median()
	return q
}

// Median is how long half of the waits were, at the least, that ended since it
// was last asked: the lower bound of the runtime's bucket. 0 where none was.
func (q *Queue) Median() time.Duration {
	metrics.Read(q.samples)
	if q.samples[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0 // a runtime that does not have it
	}
	h := q.samples[0].Value.Float64Histogram()
	if q.seen == nil {
		q.seen = make([]uint64, len(h.Counts))
	}
	var total uint64
	for i, n := range h.Counts {
		total += n - q.seen[i]
	}
	median := time.Duration(0)
	for i, before := uint64(0), 0; before < len(h.Counts); before++ {
		n := h.Counts[before] - q.seen[before]
		if i += n; total > 0 && 2*i >= total {
			if lower := h.Buckets[before]; !math.IsInf(lower, 0) {
				median = time.Duration(lower * float64(time.Second))
			}
			break
		}
	}
	copy(q.seen, h.Counts)
	return median
}
