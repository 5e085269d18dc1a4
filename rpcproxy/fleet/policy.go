package fleet

import (
	"fmt"
	"math/bits"
	"time"
)

// policy chooses among endpoints that may all be called. Its methods take no
// lock and allocate nothing.
type policy interface {
	// pick returns the place of the choice among the group's members, of which
	// there are two at least. It need not look at c.Tried: what was tried is
	// drawn again.
	pick(g *group, c *Choice, now time.Duration) int
}

// policyOf is the policy of that name. That of pick_first, for which grpc-go has
// a balancer of its own, is here for what has no connections.
func policyOf(name string, random func() uint64) (policy, error) {
	switch name {
	case "p2c_ewma", "":
		return p2c{random}, nil
	case "round_robin":
		return roundRobin{random}, nil
	case "weighted_round_robin":
		return weightedRoundRobin{random}, nil
	case "least_request":
		return leastRequest{random}, nil
	case "ring_hash":
		return ringHash{random}, nil
	case "pick_first":
		return pickFirst{}, nil
	default:
		return nil, fmt.Errorf("balancer policy %q is not known", name)
	}
}

// twoOf draws two different numbers below n, which is 2 at least, by random
// bits.
func twoOf(n int, random uint64) (i, j int) {
	i = int(random >> 32 * uint64(n) >> 32)
	j = int(random & (1<<32 - 1) * uint64(n-1) >> 32)
	if j >= i {
		j++
	}
	return i, j
}

// oneOf draws a number below n by random bits.
func oneOf(n int, random uint64) int {
	hi, _ := bits.Mul64(random, uint64(n))
	return int(hi)
}

// pickFirst keeps to the first.
type pickFirst struct{}

func (pickFirst) pick(*group, *Choice, time.Duration) int { return 0 }
