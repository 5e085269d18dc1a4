package fleet

import (
	"slices"
	"sync/atomic"
	"time"
)

// member is an endpoint of a set.
type member struct {
	endpoint *Endpoint
	hash     uint64 // the endpoint's, at hand
	place    int    // in the set
}

// group is endpoints that a policy chooses among. Its members do not change.
type group struct {
	members []member
	// When the last of them that starts slowly gets its whole share.
	started time.Duration

	schedule   atomic.Pointer[schedule] // weighted_round_robin
	scheduling atomic.Bool              // somebody makes a new one
	turn       turn                     // round_robin, weighted_round_robin
}

// newGroup is nil without members. Groups begin at another turn each, or the
// first endpoint would get the first call of each connection.
func newGroup(members []member, random uint64) *group {
	if len(members) == 0 {
		return nil
	}
	g := &group{members: members}
	for _, m := range members {
		g.started = max(g.started, m.endpoint.start.end())
	}
	g.turn.n.Store(random >> 16) // far from where it would begin anew
	return g
}

// pick chooses a member: one that was not tried for the call, if there is one;
// else ok is false, and the choice is as good as any.
func (g *group) pick(p policy, c *Choice, now time.Duration) (m member, ok bool) {
	if len(g.members) == 1 {
		m = g.members[0]
		return m, !c.tried(m.endpoint)
	}
	i := p.pick(g, c, now)
	if len(c.Tried) == 0 {
		return g.members[i], true
	}
	for range draws {
		if !c.tried(g.members[i].endpoint) {
			return g.members[i], true
		}
		i = p.pick(g, c, now)
	}
	for range g.members {
		if !c.tried(g.members[i].endpoint) {
			return g.members[i], true
		}
		i = (i + 1) % len(g.members)
	}
	return g.members[i], false
}

func (c *Choice) tried(e *Endpoint) bool { return len(c.Tried) > 0 && slices.Contains(c.Tried, e) }

// admits tells whether a member takes the call, which one that starts slowly
// leaves to others most of the time.
func (g *group) admits(i int, now time.Duration, random func() uint64) bool {
	if now >= g.started {
		return true
	}
	s := &g.members[i].endpoint.start
	return now >= s.end() || s.admits(now, random())
}

// unlessStarting is i, or j where i starts slowly and leaves the call to it.
func (g *group) unlessStarting(i, j int, now time.Duration, random func() uint64) int {
	if g.admits(i, now, random) {
		return i
	}
	return j
}

// scheduled is the schedule of the members' present weights. One of many callers
// makes it anew when it is due, while the others go on with the old one.
func (g *group) scheduled(now time.Duration) *schedule {
	s := g.schedule.Load()
	if s != nil && (now < s.until || !g.scheduling.CompareAndSwap(false, true)) {
		return s
	}
	renewed := newSchedule(g.members, now)
	g.schedule.Store(renewed)
	g.scheduling.Store(false)
	return renewed
}
