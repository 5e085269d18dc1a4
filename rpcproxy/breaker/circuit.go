package breaker

import (
	"fmt"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// circuit is one breaker that works by itself. Times are since the group's
// epoch, on the monotonic clock.
type circuit interface {
	// allow lets a call through, or gives the time, above 0, after which trying
	// again makes sense.
	allow(now time.Duration) (ticket, time.Duration)
	// progress reports a success before the end, and tells whether it was taken
	// as one.
	progress(t ticket, now time.Duration) bool
	// done reports the end: Ignored, Success or Failure, which why names.
	done(t ticket, o Outcome, why string, now time.Duration)
	state(now time.Duration) State
	view(now time.Duration) view
	// quiet tells whether it would let the next calls through if they all failed,
	// but for those few that a new one lets through as well.
	quiet(now time.Duration) bool
}

// ticket is a call that one circuit let through.
type ticket struct {
	circuit circuit // nil: none
	// When it was let through: the period (threshold), the number of recoveries
	// before it (adaptive). A result that comes in another one is of another
	// time.
	period     *period
	recoveries uint32
	probe      *probe // let through half-open
	progressed bool   // progress was taken as a success
}

// report reports the end.
func (t ticket) report(o Outcome, why string, now time.Duration) {
	if t.circuit != nil {
		t.circuit.done(t, o, why, now)
	}
}

// newCircuit makes the circuit that the configuration asks for; nil: none. note
// is told of changes of its state, with no lock held.
func newCircuit(cfg config.Breaker, s *stripes, note func(Change), now time.Duration) (circuit, error) {
	switch cfg.Kind {
	case "adaptive", "":
		return newAdaptive(cfg.Adaptive, s, note, now)
	case "threshold":
		return newThreshold(cfg.Threshold, s, note, now)
	case "off":
		return nil, nil //nolint:nilnil // none is what was asked for
	default:
		return nil, fmt.Errorf("breaker kind %q is not known: adaptive, threshold or off", cfg.Kind)
	}
}
