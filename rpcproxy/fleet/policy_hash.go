package fleet

import (
	"slices"
	"time"
)

// ringHash sends all calls of one key to one endpoint: the one whose hash with
// the key is the highest (rendezvous hashing, Thaler and Ravishankar 1998).
// When an endpoint goes, its keys alone move, and evenly to all others; when one
// comes, it takes its share of the keys, and no other key moves; all gateways
// and connections agree without telling each other.
//
// A ring with many points for each endpoint (ketama) needs that many for keys
// to be spread evenly, and a table (Maglev) moves some keys more; both are to be
// built, and held, for each connection's own set. This one hashes once for each
// endpoint: some 100 ns for a hundred.
type ringHash struct{ random func() uint64 }

func (p ringHash) pick(g *group, c *Choice, _ time.Duration) int {
	if !c.Keyed {
		return oneOf(len(g.members), p.random())
	}
	if i := highest(g.members, c.Key, c.Tried); i >= 0 {
		return i
	}
	return highest(g.members, c.Key, nil)
}

// highest is the place of the key's endpoint among those that were not tried; -1:
// all were.
func highest(members []member, key uint64, tried []*Endpoint) int {
	best, bestScore := -1, uint64(0)
	for i := range members {
		m := &members[i]
		score := mix(m.hash ^ key)
		if (best < 0 || score > bestScore) && (len(tried) == 0 || !slices.Contains(tried, m.endpoint)) {
			best, bestScore = i, score
		}
	}
	return best
}
