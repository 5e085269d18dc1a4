package chaos

import (
	"fmt"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

// holding is what a gateway holds when it has nothing to do.
type holding struct {
	goroutines, files, heap float64
}

// held returns what a gateway holds after a collection of garbage.
func held(g *gatewaytest.Gateway) holding {
	g.AdminGet("/debug/pprof/heap?gc=1")
	return holding{g.Metric("go_goroutines"), g.Metric("process_open_fds"), g.Metric("go_memstats_heap_alloc_bytes")}
}

func (h holding) max(other holding) holding {
	return holding{max(h.goroutines, other.goroutines), max(h.files, other.files), max(h.heap, other.heap)}
}

// Gateways are not quite the same from one moment to the next: a look-up or a
// ping may be on its way, and maps keep the size that they grew to.
const (
	fewGoroutines = 10
	fewFiles      = 5
	someHeap      = 8 << 20
)

// leaks reports what a gateway holds beyond what it held before.
func (h holding) leaks(before holding) error {
	switch {
	case h.goroutines > before.goroutines+fewGoroutines:
		return fmt.Errorf("%v goroutines, there were %v before", h.goroutines, before.goroutines)
	case h.files > before.files+fewFiles:
		return fmt.Errorf("%v open files and connections, there were %v before", h.files, before.files)
	case h.heap > before.heap+someHeap:
		return fmt.Errorf("%.1f MiB alive, there were %.1f before", h.heap/(1<<20), before.heap/(1<<20))
	}
	return nil
}

// holdings returns the most that any gateway holds: one that was restarted is
// to be like the others.
func (s *system) holdings() holding {
	var most holding
	for _, g := range s.gateways {
		most = most.max(held(g.current()))
	}
	return most
}

// awaitNoLeaks waits until no gateway holds more than before.
func (s *system) awaitNoLeaks(before holding) {
	s.tb.Helper()
	for i, g := range s.gateways {
		var last error
		ok := eventually(func() bool {
			last = held(g.current()).leaks(before)
			return last == nil
		})
		if !ok {
			s.tb.Errorf("gateway %d leaks: %v\n%s", i, last, g.current().AdminGet("/debug/pprof/goroutine?debug=1"))
		}
		if n := g.current().Metric("rpcgate_calls_in_flight"); n != 0 {
			s.tb.Errorf("gateway %d says that %v calls are in flight", i, n)
		}
	}
}
