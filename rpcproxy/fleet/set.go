package fleet

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Set is the endpoints that one connection has ready. They do not change; what
// is known of them does.
type Set struct {
	fleet *Fleet
	ready []member
	// More endpoints are being connected to.
	more bool

	plain    atomic.Pointer[lane]              // for calls without a filter
	filtered atomic.Pointer[map[*Filter]*lane] // the others
	making   sync.Mutex                        // held to make lanes
}

// maxFilters bounds the filters that a set keeps lanes for. Filters come from
// the route table; those of tables that were replaced are forgotten with the
// set, or when there are too many.
const maxFilters = 256

// NewSet makes a set of endpoints of the fleet.
func (f *Fleet) NewSet(ready []*Endpoint) *Set {
	s := &Set{fleet: f, ready: make([]member, len(ready))}
	for i, e := range ready {
		s.ready[i] = member{endpoint: e, hash: e.hash, place: i}
	}
	return s
}

// NewPartialSet is NewSet for a connection that is about to have more endpoints
// ready. Pick finds none in it, rather than one that is out of use.
func (f *Fleet) NewPartialSet(ready []*Endpoint) *Set {
	s := f.NewSet(ready)
	s.more = true
	return s
}

// Pick chooses an endpoint for an attempt: the index of it in the set, and in
// c.Endpoint; -1: none will do. It allocates nothing and takes no lock, but when
// endpoints have changed. Each choice must be given to [Fleet.Done]; an attempt
// that is picked for again leaves the endpoint that it had.
func (s *Set) Pick(c *Choice) int {
	f := s.fleet
	now := f.now()
	if c.Endpoint != nil { // its connection was lost before anything was sent
		f.leave(c)
	}
	m, ok := s.lane(c.Filter).pick(f, c, now)
	if !ok {
		return -1
	}
	m.endpoint.load.begin(now)
	c.Endpoint, c.begun = m.endpoint, now
	if c.Told != nil {
		c.Told.Store(m.endpoint)
	}
	return m.place
}

// leave takes back a pick that came to nothing.
func (f *Fleet) leave(c *Choice) {
	if c.trial {
		f.endTrial(c)
	}
	c.Endpoint.load.inflight.Add(-1)
	c.Endpoint = nil
}

// lane is the one of a filter, as things are.
func (s *Set) lane(filter *Filter) *lane {
	generation := s.fleet.generation()
	l := s.known(filter)
	if l != nil && l.generation == generation {
		return l
	}
	if l != nil && !s.making.TryLock() {
		return l // somebody makes lanes; until then it is as before
	} else if l == nil {
		s.making.Lock()
	}
	defer s.making.Unlock()
	if l = s.known(filter); l != nil && l.generation == generation {
		return l
	}
	l = s.newLane(filter, generation)
	s.keep(filter, l)
	return l
}

func (s *Set) known(filter *Filter) *lane {
	if filter == nil {
		return s.plain.Load()
	}
	if lanes := s.filtered.Load(); lanes != nil {
		return (*lanes)[filter]
	}
	return nil
}

func (s *Set) keep(filter *Filter, l *lane) {
	if filter == nil {
		s.plain.Store(l)
		return
	}
	lanes := map[*Filter]*lane{}
	if old := s.filtered.Load(); old != nil && len(*old) < maxFilters {
		lanes = maps.Clone(*old)
	}
	lanes[filter] = l
	s.filtered.Store(&lanes)
}
