package limits

import (
	"time"
)

// buying is what the one who asks remembers from question to question.
type buying struct {
	at     time.Duration // when it was last asked
	taken  int64
	tried  int64   // taken and refused
	demand float64 // units a nanosecond
}

// Question is what to ask of the store.
type Question struct {
	// Pay is what was taken already, in units; Buy is what is to be bought besides.
	Pay, Buy int64
	// Period is the quota's; Late is what is owed for the one before, LateFor.
	Period  string
	Late    int64
	LateFor string
	Spec    Spec
	// At is when it was first asked, in nanoseconds. A quota's question that no answer
	// came to is asked again as it was, with the same At: it is to count once.
	At time.Duration
	// Settles: it is one of GiveBack's, which come beside the others.
	Settles bool

	forgiven int64
	epoch    uint64
}

// Answer is what the store says.
type Answer struct {
	// Given is how much of Pay and Buy together there was.
	Given int64
	// Left is what the store has now, in units; below zero: more was taken than there
	// was.
	Left float64
}

// ask has the store asked, at once or in a while, where that is of use. Whoever was
// refused is impatient.
func (a *Allowance) ask(s *state, now time.Duration, taken int64, refused bool) {
	phase := a.phase.Load()
	if phase == asking {
		return
	}
	wait := max(0, s.askAt-now)
	switch {
	case wait == 0:
	case s.urgent(now, taken):
		wait = 0
	case refused && taken <= s.askAbove:
		return // it is known that there is nothing; nor is there anything to be told
	}
	if wait > 0 {
		if phase == resting && a.phase.CompareAndSwap(resting, waiting) {
			a.options.Ask(wait)
		}
		return
	}
	if a.phase.CompareAndSwap(phase, asking) {
		a.since.Store(int64(max(1, now)))
		a.options.Ask(0)
	}
}

// urgent tells whether the store is to be asked before its time: the share is used
// up, and the store must have more all the same.
func (s *state) urgent(now time.Duration, taken int64) bool {
	if s.down || taken+Unit <= s.granted || s.level(now, taken) >= 2*Unit {
		return false
	}
	owed := float64(max(0, taken-s.granted))
	return s.wholeNow(now)-owed >= max(Unit, s.rate*float64(gap))
}

// Due is to be called when the while that Ask was told of has passed. False: the
// store has been asked in the meantime.
func (a *Allowance) Due(now time.Duration) bool {
	if !a.phase.CompareAndSwap(waiting, asking) {
		return false
	}
	a.since.Store(int64(max(1, now)))
	return true
}

// Begin gives the question to ask. Answered or Failed must follow.
func (a *Allowance) Begin(now time.Duration) Question {
	a.lookAtClock(now)
	for {
		s, taken := a.load(now)
		if s.unanswered != nil {
			return *s.unanswered
		}
		q := a.question(s, now, taken)
		if s.ends == 0 { // a rate makes up for what is paid twice
			return q
		}
		n := s.next()
		n.unanswered = &q
		if a.state.CompareAndSwap(s, n) {
			return q
		}
	}
}

// Unanswered gives the question that no answer came to, if there is one that must
// be repeated.
func (a *Allowance) Unanswered() (Question, bool) {
	if q := a.state.Load().unanswered; q != nil {
		return *q, true
	}
	return Question{}, false
}

// lookAtClock begins another period where the clock that periods go by was set.
func (a *Allowance) lookAtClock(now time.Duration) {
	for {
		s, taken := a.load(now)
		if s.ends == 0 {
			return
		}
		if name, ends := a.options.Period(now); name == s.period && (ends-s.ends).Abs() < time.Second {
			return
		}
		if a.state.CompareAndSwap(s, a.rolled(s, now, taken)) {
			return
		}
	}
}

func (a *Allowance) question(s *state, now time.Duration, taken int64) Question {
	a.measure(now, taken)
	q := Question{Period: s.period, Spec: s.spec, epoch: s.epoch, Late: s.late, LateFor: s.lateFor, At: now}
	if owed := taken - s.granted; owed > 0 {
		q.Pay = owed
		if s.rate > 0 {
			// What has been made up for since is in the store's bucket too.
			lacking := int64(max(0, s.cap-s.level(now, taken)))
			q.Pay = min(owed, lacking)
		}
		q.forgiven = owed - q.Pay
	}
	q.Buy = a.wanted(s, now, taken)
	return q
}

// measure learns how many calls come.
func (a *Allowance) measure(now time.Duration, taken int64) {
	b := &a.buying
	tried := a.refused.Load() + taken
	if dt := now - b.at; dt > 0 {
		demand := float64(max(0, tried-b.tried)) / float64(max(dt, time.Millisecond))
		b.demand = (b.demand + demand) / 2
	}
	b.at, b.taken, b.tried = now, taken, tried
}

// wanted is how much to buy: what comes in a while, but not more than there is in
// it, or than leaves enough for the others. A gateway that is alone needs nothing:
// its advances are all there is.
func (a *Allowance) wanted(s *state, now time.Duration, taken int64) int64 {
	if s.share == 1 {
		return 0
	}
	while := float64(ahead)
	if s.rate == 0 {
		while = float64(2 * quotaGap)
	}
	buy := min(a.buying.demand*while, max(s.rate*while, s.wholeNow(now)*s.share/2))
	buy -= float64(max(0, s.granted-taken))
	if buy < Unit {
		return 0
	}
	return int64(buy) / Unit * Unit
}

// Answered takes in what the store said to q.
func (a *Allowance) Answered(now time.Duration, gateways int, q Question, r Answer) {
	for {
		old := a.state.Load()
		s := old.next()
		s.unanswered = nil
		if old.epoch != q.epoch { // it is of a rate that has changed, or a day that has passed
			if a.state.CompareAndSwap(old, s) {
				break
			}
			continue
		}
		taken := a.taken.Load()
		s.split(gateways)
		s.down = false
		s.late, s.lateFor = 0, ""
		left := r.Left + float64(s.spec.Calls-q.Spec.Calls)*Unit // a quota may have changed
		s.whole, s.wholeAt = max(0, min(left, s.burst)), now
		s.granted += q.forgiven + r.Given
		s.open(taken, now)
		if bought := r.Given - q.Pay; bought > 0 {
			s.askAbove = s.granted - bought/2
		}
		s.askAt = after(now, a.spread(a.pause(s)))
		s.askAt = max(s.askAt, after(now, min(forgetful, s.until(Unit-s.whole))))
		if a.state.CompareAndSwap(old, s) {
			break
		}
	}
	a.rest(now)
}

// pause is how long what was answered is good for.
func (a *Allowance) pause(s *state) time.Duration {
	if s.rate == 0 && s.whole*s.share/2 > a.buying.demand*float64(2*quotaGap) {
		return quotaGap
	}
	return gap
}

// spread varies a while by a quarter: of gateways that kept the same time, whoever
// asks right after another would find nothing each time.
func (a *Allowance) spread(d time.Duration) time.Duration {
	if a.options.Random == nil {
		return d
	}
	return d*3/4 + time.Duration(a.options.Random()*float64(d)/2)
}

// Failed says that the store did not answer.
func (a *Allowance) Failed(now time.Duration) {
	for {
		old := a.state.Load()
		s := old.next()
		s.down = true
		s.askAt = after(now, a.spread(retry))
		if a.state.CompareAndSwap(old, s) {
			break
		}
	}
	a.rest(now)
}

// rest ends a question; the next one may be due already.
func (a *Allowance) rest(now time.Duration) {
	a.since.Store(0)
	a.phase.Store(resting)
	s, taken := a.load(now)
	if taken > s.granted || s.late > 0 {
		a.ask(s, now, taken, false)
	}
}

// GiveBack takes out what was bought and not used, and gives what to tell the store:
// a question that buys less than nothing. An allowance that is retired is not to be
// used any more, and pays what it owes beside what is Unanswered.
func (a *Allowance) GiveBack(now time.Duration, retire bool) Question {
	if retire {
		a.retired.Store(true)
	}
	for {
		s, taken := a.load(now)
		q := Question{Period: s.period, Spec: s.spec, epoch: s.epoch, At: now, Settles: true}
		if retire && (s.unanswered == nil || s.unanswered.epoch != s.epoch) { // else that question pays it
			q.Late, q.LateFor = s.late, s.lateFor
		}
		switch {
		case taken < s.granted:
			if !a.taken.CompareAndSwap(taken, s.granted) {
				continue
			}
			q.Buy = taken - s.granted
			if s.rate > 0 { // the store's bucket takes no more than it lacks
				q.Buy = -min(-q.Buy, int64(s.burst-s.wholeNow(now)))
			}
		case retire && taken > s.granted && (s.ends != 0 || a.phase.Load() != asking): // else it is being paid
			n := s.next()
			n.granted = taken
			if !a.state.CompareAndSwap(s, n) {
				continue
			}
			q.Pay = max(0, taken-s.granted-s.paying())
		}
		return q
	}
}

// Stock is how much was bought and not used yet.
func (a *Allowance) Stock() int64 { return max(0, a.state.Load().granted-a.taken.Load()) }
