package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// gcPercent lets the heap grow to five times what is alive before it is
	// collected, as long as that is little (percentFor). A gateway has some megabytes
	// alive and makes garbage fast: with Go's default it collects every few
	// milliseconds under load. See docs/performance.md for what that costs.
	gcPercent = 400
	// garbageRoom is how much garbage there may be in any case, in bytes, however
	// little is alive; less where an eighth of the memory limit is less.
	garbageRoom = 16 << 20
)

// ballast is memory that counts as alive and is never touched, so that it takes
// none of the machine's. It adds gcPercent of its size to the garbage that the
// collector waits for, which matters less the more is alive besides.
type ballast []byte

// tuneMemory sets the garbage collector for a server: rare collections, but
// within nine tenths of the container's memory. GOGC and GOMEMLIMIT, where they
// are set, come first; with GOGC there is no ballast. With much alive, as
// thousands of connections are, they are less rare. What it returns is to be
// kept until the server ends.
func tuneMemory(log *slog.Logger) ballast {
	if _, err := memlimit.Set(); err != nil {
		log.Warn("the container's memory limit cannot be read", slog.Any("error", err))
	}
	limit := debug.SetMemoryLimit(-1) // the one in force, wherever it is from
	if os.Getenv("GOGC") != "" {
		log.Debug("memory", slog.Int64("limit", limit))
		return nil
	}
	debug.SetGCPercent(gcPercent)
	followCycles(log) // until the process ends
	b := make(ballast, ballastSize(limit))
	log.Debug("memory", slog.Int64("limit", limit), slog.Int("ballast", len(b)))
	return b
}

// ballastSize is for a memory limit, in bytes; without one it is math.MaxInt64.
func ballastSize(limit int64) int { return int(min(garbageRoom, limit/8) * 100 / gcPercent) }
