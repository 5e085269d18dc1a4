package main

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for alive, want := range map[uint64]int{
		0: 400, 10 << 20: 400, 64 << 20: 400, 128 << 20: 200, 256 << 20: 100, 1 << 40: 100,
	} {
		if got := percentFor(alive); got != want {
			t.Errorf("%d MiB alive: GOGC %d, want %d", alive>>20, got, want)
		}
	}
}

// GOGC falls when much is alive, and rises again when it no longer is.
func TestGOGCFollowsWhatIsAlive(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	defer followCycles(slog.New(slog.DiscardHandler))()
	wait := func(what string, ok func(percent uint64) bool) {
		t.Helper()
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		limit := time.After(10 * time.Second)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			runtime.GC()
			if metrics.Read(sample); ok(sample[0].Value.Uint64()) {
				return
			}
			select {
			case <-tick.C:
			case <-limit:
				t.Fatalf("GOGC is %d, waited in vain for %s", sample[0].Value.Uint64(), what)
			}
		}
	}
	large := make([]byte, 200<<20)
	wait("less", func(p uint64) bool { return p < 150 })
	runtime.KeepAlive(large)
	wait("as much as before", func(p uint64) bool { return p == gcPercent })
}
