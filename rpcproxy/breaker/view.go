package breaker

import (
	"fmt"
	"time"
)

// View is a breaker as its operators see it.
type View struct {
	// Whose calls it guards: one app's, or, where it is empty and AppOnly is not
	// set, all.
	App     string
	AppOnly bool
	// What it does now, and since when it is not, or is again, Closed (adaptive),
	// or in this state (threshold).
	State State
	Since time.Time
	// The share of calls that it refuses now, 0 to 1.
	Refused float64
	// The calls of the latest time: at most WindowLength.
	Window       Counts
	WindowLength time.Duration
	// What made it open; nil while it is Closed.
	Opening *Opening
	// The last failure that counted; nil: there was none.
	LastFailure *LastFailure
	// When it lets the next call through at the latest; zero while it is Closed.
	NextProbe time.Time
	// What an operator has said; nil: nothing.
	Forced *Forced
}

// Opening is what a breaker opened for.
type Opening struct {
	// What had been counted, and over how long.
	Counts Counts
	Over   time.Duration
	// What the last failure was named when it was reported.
	Last string
}

func (o *Opening) String() string {
	s := fmt.Sprintf("%d of %d calls failed within %v", o.Counts.Failures, o.Counts.Successes+o.Counts.Failures, o.Over.Round(time.Millisecond))
	if o.Counts.Refusals > 0 {
		s += fmt.Sprintf(" and %d were refused", o.Counts.Refusals)
	}
	if o.Last != "" {
		s += ", the last one with " + o.Last
	}
	return s
}

// LastFailure is a call that counted as a failure.
type LastFailure struct {
	// What it was named when it was reported: a code.
	Why string
	At  time.Time
}

// Reason says in words why the breaker is not closed; empty while it is.
func (v *View) Reason() string {
	switch {
	case v.Forced != nil:
		return "forced by " + v.Forced.By
	case v.Opening != nil:
		return v.Opening.String()
	default:
		return ""
	}
}

// Change is a change of a breaker's state.
type Change struct {
	// As in [View].
	App     string
	AppOnly bool
	To      State
	// What made it open; the last opening where it closes.
	Opening Opening
	// Set where an operator's word begins; where one ends, neither is.
	Forced *Forced
	Lifted bool
}

// view is a circuit's part of a View, with times since the group's epoch.
type view struct {
	state            State
	since, nextProbe time.Duration
	refused          float64
	window           Counts
	length           time.Duration
	opening          *Opening
	failure          *failure
}

// failure is the last one that counted.
type failure struct {
	why string
	at  time.Duration
}

// history is what a circuit remembers for its operators. It is guarded by the
// circuit's lock.
type history struct {
	since   time.Duration // of the last change
	opening Opening       // the latest one
	last    failure       // the latest one; why is empty: none
}

func (h *history) failed(why string, now time.Duration) { h.last = failure{why, now} }

func (h *history) opened(c Counts, over time.Duration) {
	h.opening = Opening{Counts: c, Over: over, Last: h.last.why}
}

func (h *history) change(to State) Change { return Change{To: to, Opening: h.opening} }

func (h *history) view(s State, c Counts, length time.Duration) view {
	v := view{state: s, since: h.since, window: c, length: length}
	if s != Closed && h.opening.Counts.Failures > 0 {
		opening := h.opening
		v.opening = &opening
	}
	if h.last.why != "" {
		last := h.last
		v.failure = &last
	}
	return v
}
