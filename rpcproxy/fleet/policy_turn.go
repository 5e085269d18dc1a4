package fleet

import "time"

// roundRobin takes the endpoints in turn.
type roundRobin struct{ random func() uint64 }

func (p roundRobin) pick(g *group, _ *Choice, now time.Duration) int {
	n := uint64(len(g.members))
	for range 2 * n {
		if i := int(g.turn.next() % n); g.admits(i, now, p.random) {
			return i
		}
	}
	return oneOf(len(g.members), p.random()) // all start slowly
}

// weightedRoundRobin takes the endpoints in turn, each as often as its weight
// says.
type weightedRoundRobin struct{ random func() uint64 }

func (p weightedRoundRobin) pick(g *group, _ *Choice, now time.Duration) int {
	s := g.scheduled(now)
	for range 2 * len(g.members) {
		if i := s.next(&g.turn); g.admits(i, now, p.random) {
			return i
		}
	}
	return s.next(&g.turn)
}
