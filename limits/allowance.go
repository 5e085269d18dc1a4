package limits

import (
	"sync/atomic"
	"time"
)

// Unit is one call. What is bought and owed is counted in parts of calls, so that
// a store that has two calls and a half to give loses none of it.
const Unit = 1000

// Decision is what a limit says of a call.
type Decision uint8

// The decisions.
const (
	// Granted: the call was counted.
	Granted Decision = iota
	// Uncounted: the call goes on, since the store cannot be asked.
	Uncounted
	// Exhausted: there is nothing left.
	Exhausted
	// Unknown: the store cannot be asked, and nothing goes on without it.
	Unknown

	Decisions = iota
)

// String names a decision for metrics.
func (d Decision) String() string {
	return [...]string{"granted", "uncounted", "exhausted", "store_down"}[d]
}

// WhenDown is what becomes of calls while the store cannot be asked.
type WhenDown uint8

// What may become of them.
const (
	DownLocal  WhenDown = iota // this gateway's share goes on
	DownOpen                   // all go on
	DownClosed                 // none does, but what was paid for before
)

// ParseWhenDown reads limits.store_down; what is not known is local.
func ParseWhenDown(name string) WhenDown {
	switch name {
	case "open":
		return DownOpen
	case "closed":
		return DownClosed
	default:
		return DownLocal
	}
}

// Allowance is one limit as one of several gateways knows it that share it. They
// share it by a store, which is a bucket of calls (GCRA) or, of a quota, a
// counter.
//
// No call waits for the store. A call is taken from what was bought of the store
// before; and where nothing is left of that, it is taken on credit: an advance of
// this gateway's share of what the store had when it was last asked, and of what
// has come in since. The next question to the store pays for it, before anything
// else is bought. Where the only gateway is this one, its share is everything, and
// the advance is exactly what the store would say. One call is always had in
// advance where the store must have one: so limits of less than a call for each
// gateway let through all they may, and at most one call more for each gateway,
// which is owed.
//
// While the store cannot be asked, advances simply go on: the share is a bucket of
// its own, filled at its part of the rate. Of what was taken so, as much is paid
// later as the bucket still lacks.
//
// An Allowance is safe for use by many goroutines. Take is a few atomic
// operations. It reads no clock: now is the time since any moment that is the same
// for all its calls.
type Allowance struct {
	options AllowanceOptions

	state   atomic.Pointer[state]
	taken   atomic.Int64 // units, ever
	refused atomic.Int64 // units, ever
	phase   atomic.Int32
	since   atomic.Int64 // when the phase that waits for the store began; 0: it does not wait
	retired atomic.Bool

	buying buying // of the one who asks
}

// AllowanceOptions are an allowance's surroundings.
type AllowanceOptions struct {
	WhenDown WhenDown
	// Ask is called when the store is to be asked, after a while; what it starts is to
	// call Begin. It must not block, and never runs twice at a time but for an
	// impatient call that comes while another's while has not passed.
	Ask func(after time.Duration)
	// Period tells, for a quota, which one it is now, as a text, and when it ends.
	Period func(now time.Duration) (name string, ends time.Duration)
	// Random gives numbers from 0 to 1, by which gateways keep from asking in step; nil:
	// they may.
	Random func() float64
}

// The phases between two answers of the store.
const (
	resting int32 = iota // nothing is to be asked
	waiting              // something is, in a while
	asking               // it is on its way
)

// patience is how long the store may take to answer before it counts as down.
const patience = 250 * time.Millisecond

// NewAllowance makes an allowance of a limit that gateways share, of which nothing
// is known yet: it is taken to be unused.
func NewAllowance(spec Spec, gateways int, now time.Duration, o AllowanceOptions) *Allowance {
	a := &Allowance{options: o}
	s := &state{}
	s.set(spec, gateways)
	s.whole, s.wholeAt = s.burst, now
	s.open(0, now)
	if spec.Per == 0 {
		s.period, s.ends = o.Period(now)
	}
	a.state.Store(s)
	return a
}

// Spec is the limit.
func (a *Allowance) Spec() Spec { return a.state.Load().spec }

// Change gives the limit other numbers, from now on. A rate begins anew: by what
// was used of the old one, a new one could be shut for long. Of a quota, what was
// used stays used.
func (a *Allowance) Change(spec Spec, gateways int, now time.Duration) {
	for {
		old := a.state.Load()
		if old.spec == spec {
			return
		}
		s := old.next()
		taken := a.taken.Load()
		used := old.burst - old.whole
		s.set(spec, gateways)
		s.whole, s.wholeAt = s.burst, now
		if spec.Per == 0 {
			s.whole = max(0, s.burst-used)
		} else {
			s.epoch++
			s.granted = taken // what was bought of the old one, or owed to it, is let go
		}
		s.open(taken, now)
		s.askAt = now
		if a.state.CompareAndSwap(old, s) {
			a.ask(s, now, taken, false)
			return
		}
	}
}

// May tells whether Take would let a call go on now. It counts nothing; where it
// would not, the store is asked, unless it is known to have nothing.
func (a *Allowance) May(now time.Duration) Decision {
	s, taken := a.load(now)
	if d := a.decide(s, now, taken); d != Exhausted && d != Unknown {
		return d
	}
	return a.refuse(s, now, taken)
}

// Take takes a call.
func (a *Allowance) Take(now time.Duration) Decision {
	for {
		s, taken := a.load(now)
		switch d := a.decide(s, now, taken); d {
		case Granted:
			if !a.taken.CompareAndSwap(taken, taken+Unit) {
				continue
			}
			if taken+Unit > s.askAbove {
				a.ask(s, now, taken+Unit, false)
			}
			return Granted
		case Uncounted:
			a.ask(s, now, taken, false)
			return d
		default:
			return a.refuse(s, now, taken)
		}
	}
}

func (a *Allowance) refuse(s *state, now time.Duration, taken int64) Decision {
	a.refused.Add(Unit)
	a.ask(s, now, taken, true)
	if a.options.WhenDown == DownClosed && a.down(s, now) {
		return Unknown
	}
	return Exhausted
}

// Undo gives back a call that was Granted, and did not go on after all.
func (a *Allowance) Undo() { a.taken.Add(-Unit) }

func (a *Allowance) decide(s *state, now time.Duration, taken int64) Decision {
	if taken+Unit <= s.granted {
		return Granted
	}
	if a.options.WhenDown != DownLocal && a.down(s, now) {
		if a.options.WhenDown == DownOpen {
			return Uncounted
		}
		return Unknown
	}
	if s.advances(now, taken) {
		return Granted
	}
	return Exhausted
}

// down tells whether the store does not answer.
func (a *Allowance) down(s *state, now time.Duration) bool {
	if s.down {
		return true
	}
	since := a.since.Load()
	return since != 0 && now-time.Duration(since) > patience
}

// load gives the state as of now, and what was taken until then.
func (a *Allowance) load(now time.Duration) (*state, int64) {
	for {
		s, taken := a.state.Load(), a.taken.Load()
		var n *state
		switch {
		case s.ends != 0 && now >= s.ends:
			n = a.rolled(s, now, taken)
		case s.level(now, taken) > s.cap+s.slack:
			n = s.next()
			n.base, n.lev, n.at = taken, s.cap, now
		default:
			return s, taken
		}
		a.state.CompareAndSwap(s, n)
	}
}

// rolled begins the next period of a quota, if there is another by now. Calls that
// are not paid for yet are those of the one before, and are paid there.
func (a *Allowance) rolled(s *state, now time.Duration, taken int64) *state {
	n := s.next()
	n.period, n.ends = a.options.Period(now)
	n.ends = max(n.ends, now+time.Millisecond)
	if n.period == s.period { // the clock was set, or goes at another pace
		return n
	}
	n.epoch++
	n.lateFor, n.late = "", 0
	if owed := taken - s.granted - s.paying(); owed > 0 {
		n.lateFor, n.late = s.period, owed
	}
	n.whole, n.wholeAt = n.burst, now
	n.granted = taken
	n.open(taken, now)
	n.askAt = now
	return n
}

// View is a limit as a caller is told of it.
type View struct {
	// How many calls are left.
	Remaining int
	// When there is one more, or, of a quota, when it begins anew.
	Reset time.Duration
}

// View tells how much is left.
func (a *Allowance) View(now time.Duration) View {
	s, taken := a.load(now)
	left := min(s.burst, s.wholeUnclipped(now)+float64(s.granted-taken))
	if s.down {
		left = s.level(now, taken)
		if stock := float64(s.granted - taken); stock > 0 {
			left += stock
		}
	}
	v := View{Remaining: int(max(0, left) / Unit)}
	if s.ends != 0 {
		v.Reset = s.ends - now
	} else {
		missing := float64(v.Remaining+1)*Unit - left
		v.Reset = nanoseconds(missing / s.rate)
	}
	return v
}

// RetryAfter is when a call that is Exhausted now may go on, as far as is known.
func (a *Allowance) RetryAfter(now time.Duration) time.Duration {
	s, taken := a.load(now)
	wait := never
	if s.rate > 0 {
		wait = nanoseconds((Unit - s.level(now, taken)) / (s.rate * s.share))
	}
	if !s.down {
		store := s.until(Unit + float64(max(0, taken-s.granted)) - s.wholeNow(now))
		if store == 0 { // it has something, but for whom the answer will tell
			store = time.Second
		}
		wait = min(wait, store)
	}
	if s.ends != 0 {
		wait = min(wait, s.ends-now)
	}
	return max(wait, time.Millisecond)
}

// Retired tells whether the allowance was given up, and another is to be used in
// its place.
func (a *Allowance) Retired() bool { return a.retired.Load() }

// Used is a number that changes with each call.
func (a *Allowance) Used() int64 { return a.taken.Load() + a.refused.Load() }
