package fleet

import "sync"

// Turns lets one of many do something for all of them, such as one connection
// watch an endpoint's health for all connections that have it. When it leaves,
// another takes over. The zero value works.
type Turns struct {
	mu      sync.Mutex
	holder  *Turn
	waiting map[*Turn]struct{}
}

// Turn is a place among those who could do it.
type Turn struct {
	turns *Turns
	begin func() (end func())
	end   func() // once it has begun
}

// Join takes a place. begin is called when it is its turn: before Join returns,
// or later, in the goroutine of the one who leaves; at most once, and not after
// Leave has returned. What begin returns is called by Leave. Neither may join or
// leave itself.
func (t *Turns) Join(begin func() (end func())) *Turn {
	turn := &Turn{turns: t, begin: begin}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder == nil {
		t.giveLocked(turn)
		return turn
	}
	if t.waiting == nil {
		t.waiting = map[*Turn]struct{}{}
	}
	t.waiting[turn] = struct{}{}
	return turn
}

func (t *Turns) giveLocked(turn *Turn) {
	t.holder = turn
	turn.end = turn.begin()
}

// Leave gives the place up, and the turn to another, if it has it.
func (turn *Turn) Leave() {
	t := turn.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder != turn {
		delete(t.waiting, turn)
		return
	}
	turn.end()
	t.holder = nil
	for next := range t.waiting {
		delete(t.waiting, next)
		t.giveLocked(next)
		return
	}
}
