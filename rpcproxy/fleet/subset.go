package fleet

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"

	"github.com/rpcgate/rpcgate/config"
)

// subsetter chooses the endpoints that one gateway calls.
type subsetter struct {
	size   int    // how many; 0: all
	zone   string // the gateway's own; empty: zones do not matter
	id     string // what tells the gateway from the others
	number int    // its number among all; below 0: they have none
}

func newSubsetter(cfg config.Balancer, random func() uint64) subsetter {
	s := subsetter{size: cfg.Subset.Size, zone: cfg.Zone.Name, id: cfg.Subset.ID, number: -1}
	if n, err := strconv.ParseUint(cfg.Subset.Number, 10, 31); err == nil {
		s.number = int(n)
	}
	if s.id == "" {
		s.id = strconv.FormatUint(random(), 36)
	}
	return s
}

// of is the part of the endpoints that this gateway calls, in the list's order.
// It depends on nothing but the list and who the gateway is, and when one
// endpoint comes or goes, at most one member becomes another one.
//
// Without numbers they are those that rank first for the gateway by a hash of
// its id and their address (rendezvous hashing, as gRFC A68's random
// subsetting). Each gateway chooses without knowing of the others, so that of G
// gateways with subsets of k, an endpoint of n has k·G/n on average with a
// standard deviation of not quite the root of that; nothing that gateways do
// each on their own is more even.
//
// With numbers they are those that follow the gateway's place on a ring, where
// all endpoints stand evenly in the order of their hashes, and the gateways at
// the places that the binary van der Corput sequence gives their numbers: the
// first n of them are spread evenly for each n (after Ringsteady, P. Ward and P.
// Wankadia, "Reinventing Backend Subsetting at Google", 2022). All endpoints have
// as many gateways, but for one; for that, one that comes or goes changes a member
// of half of all subsets. docs/resilience.md has the figures, which
// TestSubsetsAreEven makes with -compare.
//
// Where the gateway has a zone, three quarters of the members are of it, as far
// as there are so many; the rest is there for when they fail.
func (s subsetter) of(list []Info) []Info {
	if s.size <= 0 || s.size >= len(list) {
		return list
	}
	seed := uint64(0) // the ring is everybody's
	if s.number < 0 {
		seed = HashKey(s.id)
	}
	near, far := make([]ranked, 0, len(list)), []ranked(nil)
	for i, info := range list {
		r := ranked{rank: mix(seed ^ HashKey(info.Address)), address: info.Address, place: i}
		if s.zone == "" || info.Metadata["zone"] == s.zone {
			near = append(near, r)
		} else {
			far = append(far, r)
		}
	}
	nearby := s.size
	if s.zone != "" {
		nearby = s.size - s.size/4
	}
	nearby = min(len(near), max(nearby, s.size-len(far)))
	members := append(s.first(near, nearby), s.first(far, s.size-nearby)...)
	slices.SortFunc(members, func(a, b ranked) int { return cmp.Compare(a.place, b.place) })
	chosen := make([]Info, len(members))
	for i, r := range members {
		chosen[i] = list[r.place]
	}
	return chosen
}

// first are the n of some endpoints that come first for this gateway.
func (s subsetter) first(endpoints []ranked, n int) []ranked {
	slices.SortFunc(endpoints, ranked.compare)
	start := 0
	if s.number >= 0 {
		place := float64(bits.Reverse64(uint64(s.number))) / (1 << 64)
		start = int(place * float64(len(endpoints)))
	}
	chosen := make([]ranked, 0, n)
	for i := range n {
		chosen = append(chosen, endpoints[(start+i)%len(endpoints)])
	}
	return chosen
}

// ranked is an endpoint of the list, with its rank for one gateway.
type ranked struct {
	rank    uint64
	address string
	place   int // in the list
}

func (r ranked) compare(other ranked) int {
	return cmp.Or(cmp.Compare(r.rank, other.rank), cmp.Compare(r.address, other.address))
}
