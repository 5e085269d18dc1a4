package rpcproxy

import (
	"sync"
	"time"
)

// lineGate bounds how many lines of a kind go to the log.
type lineGate struct {
	mu         sync.Mutex
	second     int64 // of the last line
	lines      int   // in that second
	suppressed int
}

// gateLines is how many lines there may be in a second.
const gateLines = 10

// take tells whether a line may be written, and how many were not since the last
// one. Those that are always written count, too.
func (g *lineGate) take(always bool) (suppressed int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now().Unix(); now != g.second {
		g.second, g.lines = now, 0
	}
	if g.lines >= gateLines && !always {
		g.suppressed++
		return 0, false
	}
	g.lines++
	suppressed, g.suppressed = g.suppressed, 0
	return suppressed, true
}
