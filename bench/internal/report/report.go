// Package report owns the figures of a run: medians over its rounds, and the
// table they are printed as.
package report

import (
	"cmp"
	"slices"
	"time"
)

// Round is what one subject did in one round of one case.
type Round struct {
	Requests     int
	Elapsed      time.Duration
	User, System time.Duration // CPU time of the subject's process
	P50, P99     time.Duration
	Resident     int64 // bytes, at the round's end
}

// CPU is the process's CPU time per request.
func (r Round) CPU() time.Duration { return perRequest(r.User+r.System, r.Requests) }

// Rate is requests per second.
func (r Round) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

func perRequest(d time.Duration, requests int) time.Duration {
	if requests == 0 {
		return 0
	}
	return d / time.Duration(requests)
}

// Case is the rounds of every subject under one kind of load. The i-th rounds
// of all subjects ran side by side.
type Case struct {
	Name     string
	Subjects []Subject
}

// Subject is one program that was measured: the gateway or a peer.
type Subject struct {
	Name   string
	Rounds []Round
}

func (c Case) subject(name string) (Subject, bool) {
	i := slices.IndexFunc(c.Subjects, func(s Subject) bool { return s.Name == name })
	if i < 0 {
		return Subject{}, false
	}
	return c.Subjects[i], true
}

// Ratio is how many times the CPU time of the other subject a request costs at
// the subject: the median of the ratios of rounds that ran side by side, so
// that what slows the machine down for a while slows both. It is false when one
// of them was not measured.
func (c Case) Ratio(subject, other string) (Spread[float64], bool) {
	a, okA := c.subject(subject)
	b, okB := c.subject(other)
	if !okA || !okB {
		return Spread[float64]{}, false
	}
	var ratios []float64
	for i := range min(len(a.Rounds), len(b.Rounds)) {
		if below := b.Rounds[i].CPU(); below > 0 {
			ratios = append(ratios, float64(a.Rounds[i].CPU())/float64(below))
		}
	}
	if len(ratios) == 0 {
		return Spread[float64]{}, false
	}
	return spreadOf(ratios), true
}

// over is the median and the range over the subject's rounds of what a figure
// takes of each. There is at least one round.
func over[T cmp.Ordered](s Subject, figure func(Round) T) Spread[T] {
	values := make([]T, len(s.Rounds))
	for i, r := range s.Rounds {
		values[i] = figure(r)
	}
	return spreadOf(values)
}

// Spread is a median with the smallest and the largest of its values.
type Spread[T cmp.Ordered] struct{ Median, Min, Max T }

// spreadOf takes the lower of the two in the middle for an even number of
// values: each figure is then one that was measured. It sorts its argument.
func spreadOf[T cmp.Ordered](values []T) Spread[T] {
	slices.Sort(values)
	return Spread[T]{values[(len(values)-1)/2], values[0], values[len(values)-1]}
}
