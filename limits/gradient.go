package limits

import (
	"math"
	"time"
)

// The adaptive limit is Gradient2 of Netflix' concurrency-limits (Apache-2.0,
// limit/Gradient2Limit.java): the limit shrinks by the ratio of the usual latency
// to the latest one, with a tolerance, and grows by a small queue. Differences:
//
//   - latencies are compared within kinds, and their ratio is that of all calls
//     together, weighted by how long they usually take;
//   - smoothing is 0.5 instead of 0.2: half the slots are given up within three
//     seconds, and not within eight;
//   - the queue is the root of the limit, as in the library's first Gradient, and
//     not four, with which a limit of thousands would take an hour to grow.
//
// failsafe-go's adaptive limiter, which was tried first, allocates for each call,
// takes two locks for it, and steps by the limit's logarithm: from 5000 down to
// 100 it takes it the better part of an hour.
const (
	// AdjustInterval is how often an adaptive limit is to be adjusted.
	AdjustInterval = time.Second

	tolerance  = 1.5 // latency may grow by so much before it counts
	leastQueue = 4.0 // so many calls at least may wait at the backend
	smoothing  = 0.5 // the share of a step in the new limit
	steepest   = 0.5 // the smallest gradient
	// How many steps the usual latency looks back: ten minutes.
	usualSteps = 600
	// The usual latency is of the first samples alone until there are so many.
	warmUpSteps = 10
	// So many calls are needed to judge by; fewer are kept until there are.
	minSamples = 10
)

// Adjust makes one step of an adaptive limit, by the calls that were observed
// since the last one. It does nothing to a fixed one.
func (c *Concurrency) Adjust() {
	if !c.adaptive {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var calls int64
	for _, k := range c.list {
		calls += k.calls.Load()
	}
	if calls < minSamples {
		return
	}
	var took, usual float64
	for _, k := range c.list {
		n := k.calls.Swap(0)
		total := float64(k.took.Swap(0))
		if n == 0 || total <= 0 {
			continue
		}
		k.learn(total / float64(n))
		took += total
		usual += k.usual * float64(n)
	}
	peak := float64(max(c.peak.Swap(0), c.inFlight.Load()))
	// While half the slots are free, latency is not of the limit's making, and
	// says nothing of how far it could grow.
	if took <= 0 || peak < c.exact/2 {
		return
	}
	gradient := max(steepest, min(1, tolerance*usual/took))
	next := c.exact*gradient + max(leastQueue, math.Sqrt(c.exact))
	c.exact = (1-smoothing)*c.exact + smoothing*next
	c.exact = max(c.least, min(float64(c.most), c.exact))
	c.limit.Store(int64(math.Round(c.exact)))
}

// learn makes the usual latency follow the latest one, slowly; but where the
// latest is less than half of it, and so the backend has come back from a bad
// time, faster.
func (k *Kind) learn(latest float64) {
	k.steps++
	if k.steps <= warmUpSteps {
		k.usual += (latest - k.usual) / float64(k.steps)
		return
	}
	if k.usual > 2*latest {
		k.usual *= 0.95
	}
	k.usual += (latest - k.usual) * 2 / (usualSteps + 1)
}
