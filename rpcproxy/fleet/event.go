package fleet

import "time"

// EventKind is what an [Event] tells of.
type EventKind uint8

// The kinds of events.
const (
	// Ejected: an endpoint is out of use for a while.
	Ejected EventKind = iota
	// Readmitted: a trial call succeeded, or there is no room for the ejection any more.
	Readmitted
	// Unhealthy: the endpoint says that it does not serve.
	Unhealthy
	// Recovered: the endpoint says that it serves again, or has not been heard of for
	// too long to be believed.
	Recovered
	// Lost: no connection to the endpoint can be made, and there is none.
	Lost
	// Found: there is one again.
	Found
	// PanicBegan: too few endpoints are usable, so all are used.
	PanicBegan
	// PanicEnded: enough are again.
	PanicEnded
	// Unmatched: no endpoint has the metadata that a rule looks for.
	Unmatched
)

// Reason is why an endpoint was ejected. The set is fixed: it labels metrics.
type Reason string

// The reasons.
const (
	ConsecutiveFailures Reason = "consecutive_failures"
	SuccessRate         Reason = "success_rate"
	Latency             Reason = "latency"
	// FailedTrial: it was ejected, and the call that tried it out failed.
	FailedTrial Reason = "failed_trial"
)

// Reasons are all of them.
func Reasons() []Reason { return []Reason{ConsecutiveFailures, SuccessRate, Latency, FailedTrial} }

// Event tells whoever watches a fleet of a change, for its log and metrics.
type Event struct {
	Kind EventKind
	// The endpoint's address; empty for what is about all endpoints.
	Address string
	// Of Ejected.
	Reason Reason
	// Of Ejected: the figures that decided. Of Lost: why the connection failed.
	// Of Unmatched: the rule.
	Detail string
	// Of Ejected: until a trial call may go to it. Of Readmitted,
	// Recovered and Found: how long it was out of use.
	For time.Duration
	// Of the panics: how many of how many endpoints are usable. Of Unmatched: how
	// many endpoints there are.
	Usable, Endpoints int
}
