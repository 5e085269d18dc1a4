package limits

import (
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/rpcgate/rpcgate/config"
)

// Verdict is what becomes of a call.
type Verdict uint8

// The verdicts.
const (
	// Admitted: the call goes on.
	Admitted Verdict = iota
	// TooMany: there are as many calls in flight as there may be of its priority.
	TooMany
	// OverShare: its app has more than its share of the calls in flight.
	OverShare
	// TooSlow: calls wait too long to be run, and this one is among those that are
	// shed for it.
	TooSlow
	// TooMuch: its app holds more than its share of the bytes that may be held.
	TooMuch

	verdicts = iota
)

// Verdicts is how many there are: a Verdict is below it.
const Verdicts = verdicts

// String names a verdict for metrics.
func (v Verdict) String() string {
	switch v {
	case Admitted:
		return "admitted"
	case TooMany:
		return "max_calls"
	case OverShare:
		return "share"
	case TooMuch:
		return "held_size"
	default:
		return "queue_delay"
	}
}

// Calls that are not authenticated yet have no app. Together they may have as
// many slots as are free, half of all: a flood of made-up credentials keeps
// nobody out.
const unverifiedOfFree = 1

// ceilings is the part of max_calls that each priority's calls may fill, whoever
// makes them, so that of one app's calls, too, the lowest are shed first.
func ceilings(maxCalls int) (all [priorities]int64) {
	parts := [priorities]float64{Low: 0.8, Normal: 0.95, High: 0.975, Critical: 1}
	for p := range all {
		all[p] = math.MaxInt32
		if maxCalls > 0 {
			all[p] = max(1, int64(parts[p]*float64(maxCalls)))
		}
	}
	return all
}

// Overload decides which calls are shed when the gateway has more of them than
// it can serve. It is safe for use by many goroutines.
//
// A call passes it twice. [Overload.Enter] comes before authentication, and costs
// next to nothing: it has the bound of all calls, and sheds whole priorities.
// [Ticket.Verify] comes after it, as only there the app is known for sure: who
// makes app ids up could else have another's calls shed.
type Overload struct {
	ceiling [priorities]int64
	apps    tenants
	random  func() uint32

	// Calls in flight in the lower half; those of them that are not verified yet
	// in the upper.
	calls atomic.Uint64
	cells [cellCount]cell

	// Priorities below it are shed; 0: none.
	floor atomic.Uint32
	// The most that any app was seen to raise its calls' priority by.
	lift atomic.Uint32
	// Whether cells say what is admitted.
	shedding atomic.Bool

	mu        sync.Mutex
	admission admission // Adjust's
}

// cell is one app, or, as the table is bounded, a few of thousands that have it
// in common. It fills a line of the processors' cache.
type cell struct {
	inFlight atomic.Int64
	arrived  [priorities]atomic.Uint32 // calls so far, modulo 2^32
	admit    [priorities]atomic.Uint32 // the share that is admitted while shedding, of 2^32; math.MaxUint32: all
	weight   atomic.Uint32             // of the latest call
	_        [20]byte
}

// What is added to Overload.calls: one call that is not verified, and less.
const (
	one             = uint64(1)<<32 | 1
	minusOne        = ^(one - 1)
	minusUnverified = ^(uint64(1)<<32 - 1)
	minusCall       = ^uint64(0)
)

// NewOverload makes an Overload, which is to be adjusted once in a [Tick].
func NewOverload(cfg config.Overload) *Overload {
	o := &Overload{ceiling: ceilings(cfg.MaxCalls), apps: tenants{maphash.MakeSeed()}, random: rand.Uint32}
	o.admission.init(cfg)
	return o
}

// Ticket is one call's pass. Its zero value is one that was not admitted.
type Ticket struct {
	overload *Overload // nil: holds nothing
	cell     *cell     // nil: not verified
	tenant   Tenant
	priority Priority
}

// Enter lets a call in, or not, whose app is not known yet. Only what is admitted
// is to Leave. Where apps raise the priority of their calls, this could be one of
// theirs, and is refused only if even that would not help it.
func (o *Overload) Enter(t *Ticket, p Priority) Verdict {
	at := p.raised(int(o.lift.Load()))
	if uint32(at) < o.floor.Load() {
		return TooSlow
	}
	now := o.calls.Add(one)
	inFlight, unverified := int64(uint32(now)), int64(now>>32)
	free := o.ceiling[at] - inFlight
	if free < 0 || unverified > 1+unverifiedOfFree*free {
		o.calls.Add(minusOne)
		return TooMany
	}
	*t = Ticket{overload: o, priority: p}
	return Admitted
}

// App is what a call's app says of its share.
type App struct {
	// Its id; empty where routes want no credential.
	ID string
	// How much it gets, against others; below 1: 1.
	Weight int
	// By how much it moves the priority of its calls from what their route says; see
	// [Raise].
	Raise int
}

// Verify tells whose call it is that was let in. What is refused is to Leave all
// the same.
func (t *Ticket) Verify(app App) Verdict {
	o := t.overload
	inFlight := int64(uint32(o.calls.Add(minusUnverified)))
	t.tenant = o.apps.of(app.ID, app.Weight)
	c := &o.cells[t.tenant.cell]
	t.cell = c
	if w := uint32(t.tenant.Weight()); c.weight.Load() != w {
		c.weight.Store(w)
	}
	if app.Raise != 0 {
		t.priority = t.priority.raised(app.Raise)
		if up := uint32(max(app.Raise, 0)); o.lift.Load() < up {
			o.lift.Store(up)
		}
	}
	p := t.priority
	c.arrived[p].Add(1)
	own := c.inFlight.Add(1)
	free := o.ceiling[p] - inFlight
	switch {
	case uint32(p) < o.floor.Load():
		return TooSlow // Enter could not know
	case free < 0:
		return TooMany
	case own > t.tenant.mayHave(p, free):
		return OverShare
	}
	if o.shedding.Load() {
		if share := c.admit[p].Load(); share != math.MaxUint32 && o.random() >= share {
			return TooSlow
		}
	}
	return Admitted
}

// Tenant is whose call it is, once it is verified.
func (t *Ticket) Tenant() Tenant { return t.tenant }

// Priority is the call's: its route's, and once it is verified as its app moves it.
func (t *Ticket) Priority() Priority { return t.priority }

// Stranger is who is not who he says: all such callers are one tenant.
func (o *Overload) Stranger() Tenant { return o.apps.of("\x00", 1) } // no app's id

// Leave ends the call. It may be called again, and of a Ticket that was never
// admitted.
func (t *Ticket) Leave() {
	o, c := t.overload, t.cell
	switch {
	case o == nil:
		return
	case c == nil:
		o.calls.Add(minusOne)
	default:
		c.inFlight.Add(-1)
		o.calls.Add(minusCall)
	}
	t.overload, t.cell = nil, nil
}

// InFlight is how many calls are in flight.
func (o *Overload) InFlight() int { return int(uint32(o.calls.Load())) }
