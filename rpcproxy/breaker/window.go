package breaker

import (
	"sync"
	"sync/atomic"
	"time"
)

// Counts is what a window holds.
type Counts struct {
	// Calls that the backend answered, that failed, that were refused here.
	Successes, Failures, Refusals int64
}

// window counts over the latest time, in buckets. Adding and reading take no
// lock but once per bucket, when the oldest one is dropped: what lies in the
// closed buckets is summed up then, and only the newest bucket changes in
// between.
type window struct {
	bucket time.Duration // length of a bucket; bucket 0 begins at the epoch
	// The number of the newest bucket.
	newest atomic.Int64
	// The sum of the other ones.
	closed atomic.Pointer[Counts]
	// What is in the newest bucket. Failures and refusals lie on a line of their
	// own, which is only read while all is well.
	successes          stripedCounter
	_                  [64]byte
	failures, refusals atomic.Int64
	_                  [48]byte

	mu   sync.Mutex
	ring []Counts // the closed buckets, by number modulo length
}

func newWindow(length time.Duration, buckets int, s *stripes, now time.Duration) *window {
	w := &window{
		bucket:    length / time.Duration(buckets),
		successes: newStripedCounter(s),
		ring:      make([]Counts, buckets),
	}
	w.newest.Store(int64(now / w.bucket))
	w.closed.Store(&Counts{})
	return w
}

// length is how far back it reaches.
func (w *window) length() time.Duration { return w.bucket * time.Duration(len(w.ring)) }

// floor is sum, but for the successes of the newest bucket, which lie on lines
// of memory that other processors write to.
func (w *window) floor(now time.Duration) Counts {
	w.advance(now)
	c := *w.closed.Load()
	c.Failures += w.failures.Load()
	c.Refusals += w.refusals.Load()
	return c
}

// sum gives the counts of the window that ends now.
func (w *window) sum(now time.Duration) Counts {
	c := w.floor(now)
	c.Successes += w.successes.sum()
	return c
}

func (w *window) succeeded(now time.Duration) { w.advance(now); w.successes.inc() }

func (w *window) failed(now time.Duration) { w.advance(now); w.failures.Add(1) }

func (w *window) refused(now time.Duration) { w.advance(now); w.refusals.Add(1) }

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
	w.ring[newest%size] = Counts{
		Successes: w.successes.take(),
		Failures:  w.failures.Swap(0),
		Refusals:  w.refusals.Swap(0),
	}
	for i := newest + 1; i <= n && i <= newest+size; i++ {
		w.ring[i%size] = Counts{}
	}
	var sum Counts
	for _, c := range w.ring {
		sum.Successes += c.Successes
		sum.Failures += c.Failures
		sum.Refusals += c.Refusals
	}
	w.closed.Store(&sum)
	w.newest.Store(n)
}
