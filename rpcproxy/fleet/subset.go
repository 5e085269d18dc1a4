package fleet

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/rpcgate/rpcgate/config"
)

// subset is the part of the endpoints that this gateway calls, in the list's
// order: those that rank first for it by a hash of its id and their address
// (rendezvous hashing, as gRFC A68's random subsetting). It depends on nothing
// but the list and the id, and when one endpoint comes or goes, at most one
// member becomes another one.
//
// Each gateway chooses without knowing of the others, so that of G gateways with
// subsets of k, an endpoint of n has k·G/n on average with a standard deviation
// of not quite the root of that. Nothing that gateways do each on their own is
// more even. Subsets by the gateways' numbers (Google's "Reinventing Backend
// Subsetting") are, but all numbers must be given out, from 0 and without gaps;
// and one endpoint that comes or goes changes the subsets of nearly half of all
// gateways, and not of those alone that have it. docs/resilience.md has the
// figures, which TestSubsetsAreEven makes.
//
// Where the gateway has a zone, three quarters of the members are of it, as far
// as there are so many; the rest is there for when they fail.
func subset(list []Info, id string, size int, zone string) []Info {
	if size <= 0 || size >= len(list) {
		return list
	}
	seed := HashKey(id)
	near, far := make([]ranked, 0, len(list)), []ranked(nil)
	for i, info := range list {
		r := ranked{rank: mix(seed ^ HashKey(info.Address)), address: info.Address, place: i}
		if zone == "" || info.Metadata["zone"] == zone {
			near = append(near, r)
		} else {
			far = append(far, r)
		}
	}
	slices.SortFunc(near, ranked.compare)
	slices.SortFunc(far, ranked.compare)
	nearby := size
	if zone != "" {
		nearby = size - size/4
	}
	nearby = min(len(near), max(nearby, size-len(far)))
	members := append(near[:nearby:nearby], far[:size-nearby]...)
	slices.SortFunc(members, func(a, b ranked) int { return cmp.Compare(a.place, b.place) })
	chosen := make([]Info, len(members))
	for i, r := range members {
		chosen[i] = list[r.place]
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

// subsetID is what tells this gateway from the others.
func subsetID(cfg config.Subset, random func() uint64) string {
	if cfg.ID != "" {
		return cfg.ID
	}
	return strconv.FormatUint(random(), 36)
}
