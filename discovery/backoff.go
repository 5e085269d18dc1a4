package discovery

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a growing pause between attempts: doubled each time from min up to
// max, less a jitter, so that many clients of a lost etcd do not return at once.
type backoff struct {
	min, max time.Duration
	next     time.Duration
}

func (b *backoff) reset() { b.next = 0 }

// wait pauses; it reports false when ctx ended meanwhile.
func (b *backoff) wait(ctx context.Context) bool {
	b.next = min(max(b.min, 2*b.next), b.max)
	return pause(ctx, jitter(b.next))
}

// pause reports false when ctx ended before it was over.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// jitter shortens d by up to a fifth.
func jitter(d time.Duration) time.Duration {
	if d < 5 {
		return d
	}
	return d - rand.N(d/5) //nolint:gosec // no secret: it only spreads load
}
