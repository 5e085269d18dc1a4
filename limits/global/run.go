package global

import (
	"context"
	"sync"
	"time"

	"github.com/rpcgate/rpcgate/limits"
)

const (
	// sweepInterval is how often is looked for what was bought and is not used.
	sweepInterval = 500 * time.Millisecond
	// settleTimeout is how long the stop waits for Redis to be told what is left.
	settleTimeout = 2 * time.Second
)

// Run asks Redis for what is needed until ctx ends; then it gives back what was
// bought and not used, pays what is owed, and returns nil.
func (l *Limiter) Run(ctx context.Context) error {
	asking, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	l.queue.open(asking)
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			stop()
			l.queue.close()
			l.settle(context.WithoutCancel(ctx))
			return nil
		case <-tick.C:
			l.sweep()
		}
	}
}

// sweep gives back what lies unused, so that another gateway can have it.
func (l *Limiter) sweep() {
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.known {
		if used := m.allowance.Used(); used != m.seen {
			m.seen, m.idle = used, 0
			continue
		}
		m.idle++
		if m.allowance.Stock() == 0 {
			continue
		}
		if last := m.allowance.GiveBack(now, false); last.Buy < 0 {
			l.queue.add(&limit{key: m.key, settling: true, last: last})
		}
		m.seen = m.allowance.Used()
	}
}

// settle retires all allowances, and tells Redis what is left of them.
func (l *Limiter) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	now := l.Now()
	l.mu.Lock()
	all := l.known
	l.known = map[limits.Key]*limit{}
	l.mu.Unlock()
	l.queue.mu.Lock()
	last := l.queue.waiting // of those that were retired before
	l.queue.waiting = nil
	l.queue.mu.Unlock()
	for _, m := range all {
		for _, q := range m.leftover(now) {
			last = append(last, &limit{key: m.key, settling: true, last: q})
		}
	}
	tasks := make(chan *limit)
	var workers sync.WaitGroup
	for range min(asksAtOnce, len(last)) {
		workers.Go(func() {
			for m := range tasks {
				if ctx.Err() == nil {
					answer, err := l.ask(ctx, m.key, m.last)
					l.metrics.asked(m.last, answer, err)
				}
			}
		})
	}
	for _, m := range last {
		if m.settling {
			tasks <- m
		}
	}
	close(tasks)
	workers.Wait()
}
