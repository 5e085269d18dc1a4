package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent lets the heap grow to five times what is alive before it is
// collected. A gateway has some megabytes alive and makes garbage fast: with
// Go's default it collects every few milliseconds under load. See
// docs/performance.md for what that costs.
const gcPercent = 400

// tuneMemory sets the garbage collector for a server, as far as GOGC and
// GOMEMLIMIT leave that open: rare collections, but within nine tenths of the
// container's memory.
func tuneMemory(log *slog.Logger) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if limit, err := memlimit.Set(); err != nil {
		log.Warn("the container's memory limit cannot be read", slog.Any("error", err))
	} else {
		log.Debug("memory limit", slog.Int64("bytes", limit))
	}
}
