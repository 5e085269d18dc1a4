package limits

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"
)

// Turns says whose work the processors do next when there is more of it than they
// can do at once. It is start-time fair queueing (Goyal, Vin and Cheng, "Start-time
// Fair Queueing", SIGCOMM 1996): each tenant has a clock that its work moves on by
// what it costs, over the tenant's weight, and whose clock is behind is next. Who
// asks for less than its share does not wait; who asks for more waits for itself.
//
// Work of one tenant goes by rank, and within a rank in the order in which it came.
//
// As long as there is no want of processors, which [Turns.Observe] is told of,
// nothing waits, and a turn costs one atomic load. It is safe for use by many
// goroutines.
type Turns struct {
	atOnce  int
	engaged atomic.Bool

	mu      sync.Mutex
	flows   [cellCount]turnFlow
	behind  turnHeap // flows with work that waits, the next one in front
	running int      // turns that are not given back
	now     float64  // the clock of the latest work that had waited
	held    int      // how much waits
	waited  bool     // something had to since the latest Observe
	idle    int      // in how many observations in a row nothing did

	paused map[*turnFlow]struct{} // those with something in pauses
}

// Ranks of work, from the one that is done last.
const (
	// RankRefusal is for telling callers that they are refused.
	RankRefusal = iota
	rankPriority

	// RankAnswer is for calls that were served and want their answer, before any
	// that are not begun yet.
	RankAnswer = rankPriority + priorities
	ranks      = RankAnswer + 1
)

// Rank is the one of calls that begin, by their priority.
func (p Priority) Rank() int { return rankPriority + int(p) }

// turnFlow is what a tenant has waiting.
type turnFlow struct {
	clock  float64 // seconds of work over weight
	n      int32
	place  int32 // in the heap
	queues [ranks]turnQueue
	pauses turnQueue
}

// Turn is one piece of work's. Its zero value may be taken; it may be taken again
// once it was given back, and must not be copied.
type Turn struct {
	flow       *turnFlow // nil: nothing is held or waited for
	rank       int
	moves      float64 // the clock, by so much
	granted    bool
	over       bool // its tenant has had its share
	paused     bool
	ready      chan struct{}
	next, prev *Turn
}

// NewTurns makes Turns for so many processors.
func NewTurns(processors int) *Turns {
	return &Turns{atOnce: max(processors, 1), paused: map[*turnFlow]struct{}{}}
}

// What Observe goes by.
const (
	// Processors are short when who is ready to run waits for longer: some times
	// what a small call needs of them.
	shortFrom = 500 * time.Microsecond
	// They are not any more when nothing waited or paused at so many observations in
	// a row.
	ampleFrom = 20
)

// Observe takes in how long something that is ready to run waits for a processor.
// It is to be called some hundred times a second.
func (t *Turns) Observe(delay time.Duration) {
	if !t.engaged.Load() {
		if delay >= shortFrom {
			t.engaged.Store(true)
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if delay >= shortFrom || t.held > 0 || t.waited || len(t.paused) > 0 { // nobody would resume what pauses later
		t.idle, t.waited = 0, false
	} else if t.idle++; t.idle >= ampleFrom {
		t.idle = 0
		t.engaged.Store(false)
	}
	for f := range t.paused {
		for more := enough - f.n; more > 0; more -= enough / 8 {
			t.resume(f)
		}
	}
}

// Engaged tells whether turns are waited for.
func (t *Turns) Engaged() bool { return t.engaged.Load() }

// Take takes a turn for a tenant's work that costs a processor about so much time,
// or has it wait: then it returns false, and the turn is had when Ready gives
// something. Give ends it, either way.
func (t *Turns) Take(turn *Turn, tenant Tenant, rank int, cost time.Duration) bool {
	if !t.engaged.Load() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.flows[tenant.cell]
	turn.flow, turn.rank, turn.moves = f, rank, cost.Seconds()/float64(tenant.Weight())
	turn.granted, turn.over = false, false
	if f.n == 0 && f.clock <= t.now { // within its share: it goes on whoever else does
		t.begin(turn)
		return true
	}
	if turn.ready == nil {
		turn.ready = make(chan struct{}, 1)
	}
	t.waited = true
	t.push(turn)
	t.grant(turn)
	return turn.granted
}

// Ready gives something when a turn is had that was waited for.
func (turn *Turn) Ready() <-chan struct{} { return turn.ready }

// Over tells of a turn that is had whether its tenant asks for more than its share.
func (turn *Turn) Over() bool { return turn.over }

// Give gives a turn back, or gives up waiting for it. It does nothing to one that
// is neither had nor waited for.
func (t *Turns) Give(turn *Turn) {
	if turn.flow == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case turn.granted:
		if !turn.paused {
			t.running--
		}
		select {
		case <-turn.ready: // it was granted when its caller had gone
		default:
		}
	case turn.paused:
		t.unpause(turn)
	default:
		t.remove(turn)
	}
	turn.flow, turn.paused = nil, false
	t.grant(nil)
}

// enough is how much of one tenant's work may wait before no more is asked for: to
// keep the processors busy takes less, and what waits costs memory.
const enough = 64

// Pause has a tenant's source of more work wait while enough of its work does: true,
// and Ready gives something when it is to go on. Give ends it. Where there is room
// for more, or no want of processors, it returns false.
func (t *Turns) Pause(turn *Turn, tenant Tenant) bool {
	if !t.engaged.Load() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.flows[tenant.cell]
	if f.n < enough {
		return false
	}
	if turn.ready == nil {
		turn.ready = make(chan struct{}, 1)
	}
	turn.flow, turn.granted, turn.paused = f, false, true
	f.pauses.push(turn)
	t.paused[f] = struct{}{}
	return true
}

// resume has the source go on that has waited for the longest.
func (t *Turns) resume(f *turnFlow) {
	turn := f.pauses.first
	if turn == nil {
		return
	}
	t.unpause(turn)
	turn.granted = true
	turn.ready <- struct{}{}
}

func (t *Turns) unpause(turn *Turn) {
	f := turn.flow
	f.pauses.remove(turn)
	if f.pauses.first == nil {
		delete(t.paused, f)
	}
}

// grant gives turns to whoever is next, as far as there are. Who asks is told by
// what Take returns, and not by Ready.
func (t *Turns) grant(asks *Turn) {
	for t.running < t.atOnce && len(t.behind) > 0 {
		turn := t.behind[0].next()
		t.now = max(t.now, turn.flow.clock)
		t.remove(turn)
		t.begin(turn)
		turn.over = true
		if turn != asks {
			turn.ready <- struct{}{}
		}
	}
}

// begin has a turn's work done.
func (t *Turns) begin(turn *Turn) {
	f := turn.flow
	turn.granted = true
	t.running++
	f.clock = max(f.clock, t.now) + turn.moves
	if f.n > 0 {
		heap.Fix(&t.behind, int(f.place))
	}
}

func (t *Turns) push(turn *Turn) {
	f := turn.flow
	f.queues[turn.rank].push(turn)
	t.held++
	if f.n++; f.n == 1 {
		f.clock = max(f.clock, t.now)
		heap.Push(&t.behind, f)
	}
}

func (t *Turns) remove(turn *Turn) {
	f := turn.flow
	f.queues[turn.rank].remove(turn)
	t.held--
	if f.n--; f.n == 0 {
		heap.Remove(&t.behind, int(f.place))
	}
	if f.n < enough {
		t.resume(f)
	}
}

// next is the tenant's work that is done first.
func (f *turnFlow) next() *Turn {
	for rank := ranks - 1; ; rank-- {
		if turn := f.queues[rank].first; turn != nil {
			return turn
		}
	}
}

// turnQueue is what waits in one rank.
type turnQueue struct{ first, last *Turn }

func (q *turnQueue) push(turn *Turn) {
	turn.prev, turn.next = q.last, nil
	if q.last == nil {
		q.first = turn
	} else {
		q.last.next = turn
	}
	q.last = turn
}

func (q *turnQueue) remove(turn *Turn) {
	if turn.prev == nil {
		q.first = turn.next
	} else {
		turn.prev.next = turn.next
	}
	if turn.next == nil {
		q.last = turn.prev
	} else {
		turn.next.prev = turn.prev
	}
	turn.next, turn.prev = nil, nil
}

// turnHeap has the flow whose clock is the furthest behind in front.
type turnHeap []*turnFlow

func (h turnHeap) Len() int           { return len(h) }
func (h turnHeap) Less(i, j int) bool { return h[i].clock < h[j].clock }
func (h turnHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = int32(i), int32(j)
}

// Push is for package heap.
func (h *turnHeap) Push(x any) {
	f, _ := x.(*turnFlow) // what push gives it
	f.place = int32(len(*h))
	*h = append(*h, f)
}

// Pop is for package heap.
func (h *turnHeap) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return f
}
