// Package breaker owns when to stop calling a sick method for a while.
//
// A [Group] guards one method of one backend. Its scope says for whom: one
// breaker for all apps together, or one for each. [Group.Allow] either refuses
// the call with an [*OpenError] or gives a [Pass], on which the call's outcome
// is reported once it is known. What counts as a failure is the caller's to say;
// an outcome that says nothing about the backend (the caller went away) is
// reported as [Ignored].
//
// A call that is let through costs no lock and no allocation, and writes to no
// memory that another processor reads or writes at the time: successes are
// counted in stripes, failures and refusals, which are rare while all is well,
// in one place.
//
// An operator's word goes before the breakers' own: see [Group.Force].
package breaker

import (
	"fmt"
	"time"
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
	// Exhausted is a refusal for what the app has used up. It is a failure to the
	// app alone, in either scope.
	Exhausted
)

// State tells how much a breaker lets through.
type State uint8

// The states.
const (
	// Closed lets every call through.
	Closed State = iota
	// HalfOpen lets some calls through, to see how the backend does.
	HalfOpen
	// Open lets none through, or hardly any.
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
	// The breaker is the app's own: other apps' calls may be let through.
	AppOnly bool
	// An operator forced it open; nil: it opened by itself.
	Forced *Forced
}

func (e *OpenError) Error() string {
	if e.Forced != nil {
		return "breaker was forced open by an operator"
	}
	return fmt.Sprintf("breaker is open, retry after %v", e.RetryAfter)
}
