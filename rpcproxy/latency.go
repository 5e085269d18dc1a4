package rpcproxy

import (
	"math"
	"sync/atomic"
	"time"
)

// quantile follows a quantile of the latest durations, in one word and without
// a lock: each duration moves the estimate up if it is longer, by a step that
// is proportional to the estimate and to the quantile, and down, by the rest of
// the step, if it is not. In the long run, as many move it up as down where the
// quantile is: the Robbins–Monro stochastic approximation (1951) as "frugal
// streaming" uses it (Ma, Muthukrishnan and Sandler, 2013), on a logarithmic
// scale, for latencies span magnitudes. Of two observations at the same time one
// may be lost.
type quantile struct {
	of float64 // above 0, below 1
	// The estimate in nanoseconds, a float32, above; and below how many
	// durations there were, which stops counting at warm.
	state atomic.Uint64
}

const (
	// gain is the step of an estimate that has settled: it then moves within
	// some percent, and takes some dozen durations to follow a tenfold rise of
	// all of them.
	gain = 0.05
	// warm is after how many durations an estimate can be relied on.
	warm = 100
)

// observe takes in a duration.
func (q *quantile) observe(d time.Duration) {
	state := q.state.Load()
	n := uint32(state)
	x, estimate := float32(max(d, 1)), math.Float32frombits(uint32(state>>32))
	if n == 0 {
		estimate = x
	}
	step := gain
	if n < warm {
		step = max(gain, 1/float64(n+1)) // greater ones while there is little to go by
		n++
	}
	if x > estimate {
		estimate *= float32(1 + step*q.of)
	} else {
		estimate /= float32(1 + step*(1-q.of))
	}
	q.state.Store(uint64(math.Float32bits(estimate))<<32 | uint64(n))
}

// get is the estimate; 0: there is none to be relied on yet.
func (q *quantile) get() time.Duration {
	state := q.state.Load()
	if uint32(state) < warm {
		return 0
	}
	return time.Duration(math.Float32frombits(uint32(state >> 32)))
}
