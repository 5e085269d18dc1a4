package breaker

import (
	"sync"
	"sync/atomic"
	"time"
)

// counts is what a window holds: calls that the backend answered, calls that
// failed, calls that were refused here.
type counts struct {
	successes, failures, refusals int64
}

// window counts over the latest time, in buckets. Adding and reading take no
// lock but once per bucket, when the oldest one is dropped: what lies in the
// closed buckets is summed up then, and only the newest bucket changes in
// between.
type window struct {
	epoch  time.Time     // bucket 0 begins here
	bucket time.Duration // length of a bucket

	// The number of the newest bucket, counted from epoch.
	newest atomic.Int64
	// What is in the newest bucket.
	successes, failures, refusals atomic.Int64
	// The sum of the other ones.
	closed atomic.Pointer[counts]

	mu   sync.Mutex
	ring []counts // the closed buckets, by number modulo length
}

func newWindow(length time.Duration, buckets int) *window {
	w := &window{
		epoch:  time.Now(),
		bucket: length / time.Duration(buckets),
		ring:   make([]counts, buckets),
	}
	w.closed.Store(&counts{})
	return w
}

// sum gives the counts of the window that ends now.
func (w *window) sum(now time.Duration) counts {
	w.advance(now)
	c := *w.closed.Load()
	c.successes += w.successes.Load()
	c.failures += w.failures.Load()
	c.refusals += w.refusals.Load()
	return c
}

// now is the time since the window's epoch, on the monotonic clock.
func (w *window) now() time.Duration { return time.Since(w.epoch) }

// advance makes the bucket of now the newest. A count that is added while a
// bucket is being closed may land in its successor; it is never lost.
func (w *window) advance(now time.Duration) {
	n := int64(now / w.bucket)
	if w.newest.Load() >= n {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	newest := w.newest.Load()
	if newest >= n {
		return
	}
	size := int64(len(w.ring))
	w.ring[newest%size] = counts{
		successes: w.successes.Swap(0),
		failures:  w.failures.Swap(0),
		refusals:  w.refusals.Swap(0),
	}
	for i := newest + 1; i <= n && i <= newest+size; i++ {
		w.ring[i%size] = counts{}
	}
	var sum counts
	for _, c := range w.ring {
		sum.successes += c.successes
		sum.failures += c.failures
		sum.refusals += c.refusals
	}
	w.closed.Store(&sum)
	w.newest.Store(n)
}
