package sim

import (
	"math"
	"time"
)

// kind is what happens in an event.
type kind uint8

const (
	arrival   kind = iota // a call comes to the gateway with the index
	finish                // an endpoint has served the call
	timeout               // its caller waits no longer
	leaving               // a batch of endpoints goes down
	returning             // and comes back
)

type event struct {
	at    time.Duration
	order uint64 // of events at one time, the first pushed comes first
	kind  kind
	index int
	call  *call
	batch batch
}

// events is a heap by time. container/heap would box each event.
type events struct {
	heap   []event
	pushed uint64
}

func (q *events) push(e event) {
	e.order = q.pushed
	q.pushed++
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.before(i, parent) {
			break
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *events) pop() (event, bool) {
	if len(q.heap) == 0 {
		return event{}, false
	}
	first := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap[last] = event{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q.before(child, least) {
				least = child
			}
		}
		if least == i {
			return first, true
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}

func (q *events) before(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	if a.at != b.at {
		return a.at < b.at
	}
	return a.order < b.order
}

// histogram counts durations in steps of 2 %.
type histogram struct {
	counts [1500]int
	total  int
}

const step = 1.02

func (h *histogram) add(d time.Duration) {
	i := int(math.Log(float64(max(d, 1))) / math.Log(step))
	h.counts[min(i, len(h.counts)-1)]++
	h.total++
}

// quantile is the duration that a share q of all do not exceed; 0: there are
// none.
func (h *histogram) quantile(q float64) time.Duration {
	left := int(math.Ceil(q * float64(h.total)))
	for i, n := range h.counts {
		if left -= n; left <= 0 && h.total > 0 {
			return time.Duration(math.Pow(step, float64(i+1)))
		}
	}
	return 0
}
