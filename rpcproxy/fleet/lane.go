package fleet

import (
	"slices"
	"time"
)

// lane is where the calls of one filter go, in one set. It holds for as long as
// no endpoint changes.
type lane struct {
	generation uint64

	// Endpoints of the own zone, or of any where zones do not matter; and those
	// of other zones. Either may be nil.
	near, far *group
	// The share of the calls that goes far, of 1<<32.
	spill uint64
	// Those that are out of use, of which one may be due for a trial.
	out       []*Endpoint
	outPlaces []int // theirs in the set
}

// pick chooses an endpoint for a trial if one is due, else a zone, and in it an
// endpoint; ok is false where there is none.
func (l *lane) pick(f *Fleet, c *Choice, now time.Duration) (m member, ok bool) {
	if len(l.out) > 0 {
		if i := f.tryOut(c, l.out, now); i >= 0 {
			return member{endpoint: l.out[i], place: l.outPlaces[i]}, true
		}
	}
	first, second := l.near, l.far
	if first == nil || second != nil && l.spill > 0 && f.zoneBits(c)>>32 < l.spill {
		first, second = second, first
	}
	if first == nil {
		return member{}, false
	}
	m, fresh := first.pick(f.policy, c, now)
	if !fresh && second != nil {
		if other, fresh := second.pick(f.policy, c, now); fresh {
			return other, true
		}
	}
	return m, true
}

// zoneBits decide about the zone: at random, or by what keeps its endpoint.
func (f *Fleet) zoneBits(c *Choice) uint64 {
	if c.Keyed && f.cfg.Balancer.Policy == "ring_hash" {
		const otherThanRank = 0x9e3779b97f4a7c15 // or the keys that go far were few endpoints'
		return mix(c.Key ^ otherThanRank)
	}
	return f.rand()
}

// newLane finds out where the calls of a filter go.
func (s *Set) newLane(filter *Filter, generation uint64) *lane {
	l := &lane{generation: generation}
	for _, m := range s.ready {
		if e := m.endpoint; filter.passes(e) && !e.usable() {
			l.out, l.outPlaces = append(l.out, e), append(l.outPlaces, m.place)
		}
	}
	// Availability comes first: endpoints that pass, those that no rule names, any.
	for _, wanted := range []func(*Endpoint) bool{filter.passes, filter.spares, everyEndpoint} {
		if s.fill(l, wanted) {
			break
		}
	}
	return l
}

func everyEndpoint(*Endpoint) bool { return true }

// fill gives the lane the endpoints that are wanted and can be used, if there
// are any. When most are out of use, or all that this connection has or is
// about to have, they are used none the less.
func (s *Set) fill(l *lane, wanted func(*Endpoint) bool) bool {
	f := s.fleet
	all := f.panicking() || !s.more && !slices.ContainsFunc(s.ready, func(m member) bool { return m.endpoint.usable() })
	var near, far []member
	for _, m := range s.ready {
		switch e := m.endpoint; {
		case !wanted(e) || !all && !e.usable():
		case f.isNear(e):
			near = append(near, m)
		default:
			far = append(far, m)
		}
	}
	l.near, l.far = newGroup(near, f.rand()), newGroup(far, f.rand())
	l.spill = f.spill(len(near), wanted)
	return len(near)+len(far) > 0
}
