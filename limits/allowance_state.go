package limits

import (
	"math"
	"time"
)

// state is what is known of a limit between two changes of it, immutable. Amounts
// are in units; a rate is in units a nanosecond, of all gateways.
type state struct {
	spec  Spec
	epoch uint64 // changes with the numbers and the period: an answer is of one

	rate  float64
	burst float64 // of the whole limit
	share float64 // this gateway's part of it

	// What is paid for: taken may come up to granted without an advance.
	granted int64
	// The share as a bucket: it held lev at the time at, when taken was base.
	lev   float64
	at    time.Duration
	base  int64
	cap   float64
	slack float64
	// The store has a call at oneAt; one is what taken may come up to for it.
	oneAt time.Duration
	one   int64

	// What the store had at wholeAt, all that was paid for then taken out.
	whole   float64
	wholeAt time.Duration
	down    bool // it did not answer last time

	// The store is to be asked where taken comes above askAbove, but not before askAt.
	askAbove int64
	askAt    time.Duration

	// Of a quota.
	period  string
	ends    time.Duration // 0: a rate
	lateFor string        // the period that late is owed for
	late    int64

	// The question that is not answered yet. It may have been acted on all the same, and
	// is repeated as it was until it is answered.
	unanswered *Question
}

const (
	never = time.Duration(math.MaxInt64)
	// gap is the least time between two questions, but where the store must have more
	// than this gateway may take in advance.
	gap = 50 * time.Millisecond
	// quotaGap is that for quotas that are far from their end.
	quotaGap = 500 * time.Millisecond
	// ahead is how long what is bought should last.
	ahead = 100 * time.Millisecond
	// forgetful is how long nothing is asked of a store that had nothing: somebody may
	// have changed it.
	forgetful = 10 * time.Second
	// retry is how long nothing is asked of a store that did not answer.
	retry = 250 * time.Millisecond
	// smallShare is the least share, in calls, that is taken in advance as such. Smaller
	// limits are had call by call.
	smallShare = 4
)

// nanoseconds rounds up.
func nanoseconds(f float64) time.Duration {
	if f >= float64(never) {
		return never
	}
	return time.Duration(math.Ceil(f))
}

// after is t+d, and never for what never comes.
func after(t, d time.Duration) time.Duration {
	if d >= never-t {
		return never
	}
	return t + d
}

func (s *state) next() *state { n := *s; return &n }

// set puts in the limit's numbers.
func (s *state) set(spec Spec, gateways int) {
	s.spec = spec
	s.burst = float64(spec.Burst) * Unit
	s.rate = 0
	if spec.Per > 0 {
		s.rate = float64(spec.Calls) * Unit / float64(spec.Per)
	}
	s.split(gateways)
}

func (s *state) split(gateways int) {
	s.share = 1 / float64(max(1, gateways))
	s.cap = s.burst * s.share
	if s.share < 1 && s.cap < smallShare*Unit {
		s.cap = Unit
	}
	// Bringing the bucket down to its size at each call would be an allocation each.
	s.slack = min(s.rate*s.share*float64(gap), s.cap/16)
}

// open makes the share of what the store has now.
func (s *state) open(taken int64, now time.Duration) {
	s.base, s.at = max(s.granted, 0), now
	s.lev = min(s.whole*s.share, s.cap)
	s.one = max(s.granted, taken) + Unit
	owed := float64(max(0, taken-s.granted))
	s.oneAt = after(now, s.until(Unit+owed-s.whole))
	s.askAbove = s.granted
}

// paying is how much of what is owed by a quota the question pays that is not
// answered yet.
func (s *state) paying() int64 {
	if s.unanswered == nil || s.unanswered.epoch != s.epoch {
		return 0
	}
	return s.unanswered.Pay
}

// until is how long the store takes to get so much more.
func (s *state) until(missing float64) time.Duration {
	switch {
	case missing <= 0:
		return 0
	case s.rate == 0:
		return never
	default:
		return nanoseconds(missing / s.rate)
	}
}

// level is what the share has, what was taken of it taken out.
func (s *state) level(now time.Duration, taken int64) float64 {
	return s.lev + s.rate*s.share*float64(now-s.at) - float64(max(0, taken-s.base))
}

// advances tells whether a call may be had that is not paid for.
func (s *state) advances(now time.Duration, taken int64) bool {
	return s.level(now, taken) >= Unit || !s.down && now >= s.oneAt && taken+Unit <= s.one
}

func (s *state) wholeUnclipped(now time.Duration) float64 {
	return s.whole + s.rate*float64(now-s.wholeAt)
}

// wholeNow is what the store has, if nobody took of it.
func (s *state) wholeNow(now time.Duration) float64 { return min(s.burst, s.wholeUnclipped(now)) }
