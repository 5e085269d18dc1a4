package global

import (
	"context"
	"sync"
)

// asksAtOnce is how many questions are on their way at a time: a part of the
// connections that look-ups of credentials need, too.
const asksAtOnce = 8

// queue has questions asked, a few at a time, in the order that they came in. It
// holds as many as there are limits, at most: each has one. Where nothing is
// asked, no goroutine runs.
type queue struct {
	serve func(context.Context, *limit)

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // Run's, for the workers; nil: it does not run
	waiting []*limit
	working int
	workers sync.WaitGroup
}

func (q *queue) add(m *limit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, m)
	q.hireLocked()
}

func (q *queue) hireLocked() {
	if q.ctx != nil && q.working < asksAtOnce { // those that work are busy: they go when there is nothing
		q.working++
		q.workers.Go(q.work)
	}
}

// open lets questions be asked until ctx ends.
func (q *queue) open(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ctx = ctx
	for range min(asksAtOnce, len(q.waiting)) {
		q.hireLocked()
	}
}

// close waits for those that are being asked, and begins no more.
func (q *queue) close() {
	q.mu.Lock()
	q.ctx = nil
	q.mu.Unlock()
	q.workers.Wait()
}

func (q *queue) work() {
	for {
		m, ctx := q.next()
		if m == nil {
			return
		}
		q.serve(ctx, m)
	}
}

func (q *queue) next() (*limit, context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ctx == nil || len(q.waiting) == 0 {
		q.working--
		return nil, nil
	}
	m := q.waiting[0]
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	return m, q.ctx
}
