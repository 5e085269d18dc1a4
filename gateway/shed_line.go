package gateway

import (
	"container/list"
	"context"
	"runtime"
	"sync"
)

// maxRefusing bounds the refusals that wait, in the line and for turns. What is
// beyond it is refused at once, whatever that costs.
const maxRefusing = 10_000

// refusalLine is where calls that are shed for want of processors wait for their
// refusal. To tell a caller of it takes half the time of serving a small call,
// nearly all of it net/http's and the system's: told at once, under a flood, the
// refusals take what they were to save. So they are told as fast as the others'
// work leaves time for it, which is at once as long as there is any. The newest
// goes first: its caller still listens. Whoever gives up meanwhile costs no answer.
type refusalLine struct {
	mu      sync.Mutex
	waiting list.List // of chan struct{}, the newest in front
	telling bool      // there is a goroutine that tells
}

// wait waits for the call's turn to be refused. An error says that the caller is
// gone.
func (l *refusalLine) wait(ctx context.Context) error {
	l.mu.Lock()
	if l.waiting.Len() >= maxRefusing {
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	place := l.waiting.PushFront(turn)
	if !l.telling {
		l.telling = true
		go l.tell()
	}
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		l.waiting.Remove(place) // if it is in there
		l.mu.Unlock()
		return ctx.Err()
	}
}

// tell lets one after the other go, until there is none. Between any two, all
// other goroutines that can run have their turn: one that yields goes to the end
// of the scheduler's global queue, which is served when nothing else is there to
// run, and every 61st time in any case.
func (l *refusalLine) tell() {
	for more := true; more; {
		runtime.Gosched()
		more = l.tellNext()
	}
}

// tellNext lets the newest go. When there is none, nobody tells any more.
func (l *refusalLine) tellNext() (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := l.waiting.Front()
	if newest == nil {
		l.telling = false
		return false
	}
	if turn, ok := l.waiting.Remove(newest).(chan struct{}); ok {
		close(turn)
	}
	return true
}
