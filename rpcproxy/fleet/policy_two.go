package fleet

import "time"

// forceInterval is after how long without a call an endpoint is picked though
// it looks worse: otherwise one that was slow once would never be tried again.
// zRPC's.
const forceInterval = time.Second

// forceShare is one in how many calls for which that may be. Where many gateways
// each have few calls, every endpoint is without a call of theirs most of the
// time, and nearly all calls would go to the worse one: in the simulation (see
// package sim), 300 gateways then lose 1 to 8 % of their calls to slow or small
// endpoints, and none with this.
const forceShare = 16

// draws is how often a pair is drawn until both are healthy. zRPC's.
const draws = 3

// p2c sends each call to the better of two endpoints drawn at random ("power of
// two choices"), by latency and calls in flight: p2c_ewma.
type p2c struct{ random func() uint64 }

func (p p2c) pick(g *group, _ *Choice, now time.Duration) int {
	var i, j int
	var a, b *Endpoint
	for range draws {
		i, j = twoOf(len(g.members), p.random())
		a, b = g.members[i].endpoint, g.members[j].endpoint
		if a.load.healthy() && b.load.healthy() {
			break
		}
	}
	if a.load.worse(&b.load) {
		i, j, a, b = j, i, b, a
	}
	// One call alone finds out.
	if last := b.load.picked.Load(); int64(now)-last > int64(forceInterval) && p.random()%forceShare == 0 && b.load.picked.CompareAndSwap(last, int64(now)) {
		return j
	}
	return g.unlessStarting(i, j, now, p.random)
}

// leastRequest sends each call to the one of two endpoints drawn at random that
// has fewer calls in flight.
type leastRequest struct{ random func() uint64 }

func (p leastRequest) pick(g *group, _ *Choice, now time.Duration) int {
	i, j := twoOf(len(g.members), p.random())
	if g.members[i].endpoint.load.inflight.Load() > g.members[j].endpoint.load.inflight.Load() {
		i, j = j, i
	}
	return g.unlessStarting(i, j, now, p.random)
}
