package main

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// mostGarbage is how much garbage may come together, in bytes, before it is
	// collected, if no more than that is alive. gcPercent alone would let a gateway
	// with ten thousand connections, which have half a gigabyte alive, take two more.
	mostGarbage = 256 << 20
	// leastPercent is Go's default: with more alive than mostGarbage there may be as
	// much garbage again, since collecting costs by what is alive.
	leastPercent = 100
)

// percentFor is the GOGC for what is alive, in bytes: heap, stacks and globals.
func percentFor(alive uint64) int {
	if alive <= mostGarbage*100/gcPercent {
		return gcPercent
	}
	return int(max(leastPercent, mostGarbage*100/alive))
}

// cycle follows the collector: its finalizer runs once after each collection,
// which is Go's only way to be told of one.
type cycle struct {
	log     *slog.Logger
	percent int // in force
	samples []metrics.Sample
	stopped *atomic.Bool
}

// followCycles adapts GOGC to what is alive from the next collection on, until it
// is stopped. Nobody may hold the cycle: else it is never finalized.
func followCycles(log *slog.Logger) (stop func()) {
	stopped := new(atomic.Bool)
	runtime.SetFinalizer(&cycle{log: log, percent: gcPercent, stopped: stopped, samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}}, (*cycle).ended)
	return func() { stopped.Store(true) }
}

func (c *cycle) ended() {
	if c.stopped.Load() {
		return
	}
	metrics.Read(c.samples)
	var alive uint64
	for _, s := range c.samples {
		alive += s.Value.Uint64()
	}
	// Setting it stops the world for a moment: not for a trifle.
	if percent := percentFor(alive); percent > c.percent*11/10 || percent < c.percent*9/10 || percent != c.percent && percent == gcPercent {
		debug.SetGCPercent(percent)
		c.percent = percent
		c.log.Debug("memory", slog.Uint64("alive", alive), slog.Int("gogc", percent))
	}
	runtime.SetFinalizer(c, (*cycle).ended)
}
