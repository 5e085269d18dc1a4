package fleet

import "time"

// Choice is what one attempt wants of its endpoint, and which one it got. It
// belongs to one attempt, which is picked for by one goroutine at a time (gRPC
// may pick again for an attempt whose connection turned out dead), and must not
// be copied once it was picked with.
type Choice struct {
	// For ring_hash: the hash of what keeps its endpoint; without Keyed any will
	// do.
	Key   uint64
	Keyed bool
	// The attempt streams: how long it takes says nothing.
	Stream bool
	// Which endpoints the call may go to; nil: any.
	Filter *Filter
	// Endpoints that were tried for this call, avoided as long as there are others.
	Tried []*Endpoint

	// Endpoint is the one chosen; nil: none yet.
	Endpoint *Endpoint
	begun    time.Duration // when it was chosen, by the fleet's clock
}

// Filter tells which endpoints a call may go to, by their metadata. One is
// made for each distinct rule when a route table is built, and shared by all
// calls: it is compared by its address.
type Filter struct{}

// Set is the endpoints that one connection has ready. It is immutable.
type Set struct {
	fleet *Fleet
	ready []*Endpoint
}

// NewSet makes a set of endpoints of the fleet.
func (f *Fleet) NewSet(ready []*Endpoint) *Set { return &Set{fleet: f, ready: ready} }

// Pick chooses an endpoint for an attempt: the index of it in the set, and in
// c.Endpoint; -1: none will do. It allocates nothing and takes no lock.
func (s *Set) Pick(c *Choice) int {
	if len(s.ready) == 0 {
		return -1
	}
	c.Endpoint, c.begun = s.ready[0], s.fleet.now()
	return 0
}
