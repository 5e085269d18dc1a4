// Package breaker owns when to stop calling a sick method for a while.
//
// A [Breaker] guards one method of one backend, for all credentials together.
// [Breaker.Allow] either refuses the call with an [*OpenError] or gives a
// [Pass], on which the call's outcome is reported once it is known. What
// counts as a failure is the caller's to say; an outcome that says nothing
// about the backend (the caller went away) is reported as [Ignored].
package breaker

import (
	"fmt"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// Outcome is what a call that was let through says about the backend.
type Outcome uint8

// The outcomes.
const (
	// Ignored says nothing about the backend.
	Ignored Outcome = iota
	// Success is an answer, whatever its content.
	Success
	// Failure is a failure that the backend, or the way to it, is to blame for.
	Failure
)

// State tells how much a breaker lets through.
type State uint8

// The states.
const (
	// Closed lets every call through.
	Closed State = iota
	// HalfOpen lets some calls through, to see how the backend does.
	HalfOpen
	// Open lets none through.
	Open
)

// String is the state's name in metrics and logs.
func (s State) String() string {
	switch s {
	case HalfOpen:
		return "half_open"
	case Open:
		return "open"
	default:
		return "closed"
	}
}

// OpenError is the refusal of a call.
type OpenError struct {
	// When trying again makes sense; above 0.
	RetryAfter time.Duration
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("breaker is open, retry after %v", e.RetryAfter)
}

// Breaker guards one method. It is safe for use by many goroutines.
type Breaker interface {
	// Allow lets a call through, whose outcome must be reported with
	// [Pass.Done], or refuses it with an *[OpenError].
	Allow() (Pass, error)
	// State is for metrics; it changes nothing.
	State() State
}

// Pass is a call that was let through. It is used by one goroutine.
type Pass struct {
	call call
	// Whether Progress was called, and whether it was taken as a success.
	asked, progressed bool
}

// call is what a kind of breaker does with the news of one call.
type call interface {
	// progress reports a success before the end, and tells whether it was
	// taken as one.
	progress() bool
	// done reports the end. progressed: progress was taken as a success.
	done(o Outcome, progressed bool)
}

// Progress reports that the backend has begun to answer a call that may go on
// for long. A stream is a success from its header on, so that breakers recover
// where no stream ever ends; if it fails later, that counts as well. Only the
// first report counts.
func (p *Pass) Progress() {
	if p.call != nil && !p.asked {
		p.asked = true
		p.progressed = p.call.progress()
	}
}

// Done reports the outcome of the call. Only the first report counts.
func (p *Pass) Done(o Outcome) {
	if p.call == nil {
		return
	}
	p.call.done(o, p.progressed)
	p.call = nil
}

// New makes the breaker that the configuration asks for.
func New(cfg config.Breaker) (Breaker, error) {
	switch cfg.Kind {
	case "adaptive", "":
		return newAdaptive(cfg.Adaptive)
	case "threshold":
		return newThreshold(cfg.Threshold)
	case "off":
		return off{}, nil
	default:
		return nil, fmt.Errorf("breaker kind %q is not known: adaptive, threshold or off", cfg.Kind)
	}
}

// off lets everything through.
type off struct{}

func (off) Allow() (Pass, error) { return Pass{}, nil }

func (off) State() State { return Closed }
