package gateway

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/limits"
)

// turns has calls wait for their app's turn while there is a want of processors.
//
// What waits here holds back what would be made of it: a call that is not begun
// keeps its body unread and its stream open, so that callers, who may have only so
// many, hold back more. Who comes to its turn goes to the end of the scheduler's
// queue first, if its app asks for more than its share: all that is ready to run,
// be it of other apps, or of the calls that are begun, goes before it. So there is
// never a queue before the processors that a well-behaved app's call had to stand
// in, and they are never idle while something waits.
type turns struct {
	limits *limits.Turns
	spare  sync.Pool  // of *limits.Turn
	idles  chan *idle // as many as there are turns at once

	refusing      atomic.Int64 // refusals that wait
	begun, waited atomic.Int64 // calls that had their turn, and how long they waited for it, since delay
}

// What work is taken to cost a processor. Only its relation matters, between the
// work of one app and another's.
const (
	costOfCall     = 100 * time.Microsecond
	costOfMessage  = 20 * time.Microsecond
	costOfRefusal  = 70 * time.Microsecond
	costOfJSONKiB  = 6 * time.Microsecond
	costOfBytesKiB = time.Microsecond

	// A smaller message is within what any call costs.
	leastToWait = 8 << 10
)

// newTurns makes turns for the processors that there are.
func newTurns() *turns {
	processors := runtime.GOMAXPROCS(0)
	t := &turns{limits: limits.NewTurns(processors), idles: make(chan *idle, processors)}
	t.spare.New = func() any { return new(limits.Turn) }
	return t
}

// yield lets all go first that is ready to run, or to be read.
func (t *turns) yield() {
	var i *idle
	select {
	case i = <-t.idles:
	default:
		var err error
		if i, err = newIdle(); err != nil {
			runtime.Gosched()
			return
		}
	}
	i.wait()
	select {
	case t.idles <- i:
	default:
		_ = i.close()
	}
}

// close gives up what yield has opened.
func (t *turns) close() {
	for {
		select {
		case i := <-t.idles:
			_ = i.close()
		default:
			return
		}
	}
}

// begin waits for the turn of a call that begins, or is refused. An error says that
// the caller is gone.
func (t *turns) begin(ctx context.Context, tenant limits.Tenant, rank int, cost time.Duration) error {
	if !t.limits.Engaged() {
		return nil
	}
	began := time.Now()
	err := t.wait(ctx, tenant, rank, cost)
	t.begun.Add(1)
	t.waited.Add(int64(time.Since(began)))
	return err
}

// refuse waits for the turn of a call that is refused, unless so many wait that one
// more is refused at once: a refusal holds no place of those that calls have.
func (t *turns) refuse(ctx context.Context, tenant limits.Tenant) error {
	defer t.refusing.Add(-1)
	if t.refusing.Add(1) > maxRefusing {
		return nil
	}
	return t.begin(ctx, tenant, limits.RankRefusal, costOfRefusal)
}

// delay is how long the calls of late waited for their turns, on average.
func (t *turns) delay() time.Duration {
	begun, waited := t.begun.Swap(0), t.waited.Swap(0)
	return time.Duration(waited / max(begun, 1))
}

// wait waits for a turn. An error says that the caller is gone.
func (t *turns) wait(ctx context.Context, tenant limits.Tenant, rank int, cost time.Duration) error {
	if !t.limits.Engaged() {
		return nil
	}
	turn, _ := t.spare.Get().(*limits.Turn) // what New makes
	defer t.spare.Put(turn)
	defer t.limits.Give(turn)
	if !t.limits.Take(turn, tenant, rank, cost) {
		select {
		case <-turn.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if turn.Over() {
		t.yield()
	}
	return nil
}

// own notes whose connection a call came by.
func (t *turns) own(ctx context.Context, tenant limits.Tenant) {
	if t.limits.Engaged() {
		if conn := connOf(ctx); conn != nil {
			conn.belongsTo(tenant)
		}
	}
}

// probeInterval is how often it is looked whether processors are short.
const probeInterval = 5 * time.Millisecond

// probe looks whether processors are short, until ctx ends: who yields runs again
// when all that was ready to run has.
func (t *turns) probe(ctx context.Context, inFlight func() int) {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	defer t.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if inFlight() < 2 && !t.limits.Engaged() {
			continue
		}
		began := time.Now()
		runtime.Gosched()
		t.limits.Observe(time.Since(began))
	}
}

// waitToRead has a message that was read wait for its turn to be looked at.
func (c *Call) waitToRead(ctx context.Context, size int) error {
	if c.turns == nil || !c.turns.limits.Engaged() || size < leastToWait && !c.Route.ClientStreams {
		return nil
	}
	return c.turns.wait(ctx, c.ticket.Tenant(), limits.RankAnswer, c.costOf(size))
}

// waitToAnswer has a message of the backend's wait for its turn.
func (c *Call) waitToAnswer(msg mem.BufferSlice) {
	if c.turns == nil || !c.turns.limits.Engaged() {
		return
	}
	size := msg.Len()
	if size < leastToWait && !c.Route.ServerStreams {
		return
	}
	_ = c.turns.wait(context.Background(), c.ticket.Tenant(), limits.RankAnswer, c.costOf(size)) // it has no end but its turn
}

// hasJSON tells whether the caller's messages are JSON, as far as the protocol says.
func (c *Call) hasJSON() bool {
	return c.Protocol == protocolJSON || c.Protocol == protocolWebSocket
}

func (c *Call) costOf(size int) time.Duration {
	perKiB := costOfBytesKiB
	if c.hasJSON() {
		perKiB = costOfJSONKiB
	}
	return costOfMessage + perKiB*time.Duration(size)/1024
}
