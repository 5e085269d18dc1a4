package telemetry

import (
	"sync"
	"time"
)

// floodgate lets at most limit lines through in each second and counts the
// rest. The seconds are its own: one begins with the first line after the last
// one ended. The zero value lets nothing through.
type floodgate struct {
	limit int

	mu         sync.Mutex
	start      time.Time // of the current second
	passed     int       // lines let through in it
	suppressed int64     // lines held back since the last one that passed
}

// allow reports whether a line may be written and, if so, how many were held
// back since the one before.
func (g *floodgate) allow() (suppressed int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); now.Sub(g.start) >= time.Second {
		g.start, g.passed = now, 0
	}
	if g.passed >= g.limit {
		g.suppressed++
		return 0, false
	}
	g.passed++
	suppressed, g.suppressed = g.suppressed, 0
	return suppressed, true
}

// take returns how many lines were held back since the last one that passed,
// and begins to count anew.
func (g *floodgate) take() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.suppressed
	g.suppressed = 0
	return n
}
