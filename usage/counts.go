package usage

import (
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Bounds of what is counted at once. Apps that have not called for idleRounds
// flushes make room for others.
const (
	maxCounted = 1 << 16 // pairs of an app and a route
	maxOthers  = 1 << 14 // apps that have some calls counted for [OtherRoute], beside those
	idleRounds = 30

	shardCount  = 64
	buckets     = 1 << 10 // of one shard
	busyRound   = 2000    // calls in one round from which on a counter has stripes
	mostStripes = 16
)

// Counts counts calls in memory until they are taken out of it. Its methods may
// be called by any number of goroutines; take by one at a time.
type Counts struct {
	seed    maphash.Seed
	shards  [shardCount]shard
	stripes int

	lost atomic.Int64 // calls that were not counted, for want of room
}

// NewCounts makes an empty one.
func NewCounts() *Counts {
	c := &Counts{seed: maphash.MakeSeed(), stripes: 1}
	for c.stripes < runtime.GOMAXPROCS(0) && c.stripes < mostStripes {
		c.stripes *= 2
	}
	return c
}

// shard is a hash table that is read without a lock: an entry that is in it does
// not change but for its counters and the next one.
type shard struct {
	heads [buckets]atomic.Pointer[entry]

	mu      sync.Mutex // guards what follows, and the links
	entries int        // in the table, but for those of [OtherRoute]
	others  int
	retired []*entry // out of the table; some calls may still be counted there
}

// entry counts an app's calls of one route.
type entry struct {
	app, route string
	next       atomic.Pointer[entry]
	first      stripe
	more       atomic.Pointer[[]stripe] // once it is busy
	idle       int                      // take: rounds without a call
}

// stripe is a set of counters in a line of memory.
type stripe struct {
	calls, caller, gateway, backend, in, out atomic.Int64

	_ [16]byte
}

// Count counts a call of an app that ended, through whom it failed, and its
// bytes.
func (c *Counts) Count(app, route string, blame Blame, in, out int64) {
	hash := maphash.String(c.seed, app) ^ maphash.String(c.seed, route)*31
	e := c.shards[hash%shardCount].find(hash, app, route)
	if e == nil {
		if e = c.enter(hash, app, route); e == nil {
			c.lost.Add(1)
			return
		}
	}
	s := &e.first
	if more := e.more.Load(); more != nil {
		s = &(*more)[rand.IntN(len(*more))] //nolint:gosec // any stripe will do
	}
	switch blame {
	case Nobody:
	case Caller:
		s.caller.Add(1)
	case Gateway:
		s.gateway.Add(1)
	case Backend:
		s.backend.Add(1)
	}
	if in != 0 {
		s.in.Add(in)
	}
	if out != 0 {
		s.out.Add(out)
	}
	s.calls.Add(1) // last: what has no call yet is not taken
}

func (s *shard) bucket(hash uint64) *atomic.Pointer[entry] {
	return &s.heads[hash/shardCount%buckets]
}

func (s *shard) find(hash uint64, app, route string) *entry {
	for e := s.bucket(hash).Load(); e != nil; e = e.next.Load() {
		if e.app == app && e.route == route {
			return e
		}
	}
	return nil
}

// enter makes an entry, or gives the one for other routes where there is no room;
// nil where there is none for that either.
func (c *Counts) enter(hash uint64, app, route string) *entry {
	if e := c.shards[hash%shardCount].enter(hash, app, route); e != nil || route == OtherRoute {
		return e
	}
	hash = maphash.String(c.seed, app) ^ maphash.String(c.seed, OtherRoute)*31
	s := &c.shards[hash%shardCount]
	if e := s.find(hash, app, OtherRoute); e != nil {
		return e
	}
	return s.enter(hash, app, OtherRoute)
}

func (s *shard) enter(hash uint64, app, route string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(hash, app, route); e != nil { // somebody else came first
		return e
	}
	n, most := &s.entries, maxCounted/shardCount
	if route == OtherRoute {
		n, most = &s.others, maxOthers/shardCount
	}
	if *n >= most {
		return nil
	}
	*n++
	e := &entry{app: app, route: route}
	head := s.bucket(hash)
	e.next.Store(head.Load())
	head.Store(e)
	return e
}

// take takes out all that was counted, and gives it app by app and route by
// route, of which some may come twice. Entries that were idle for long leave the
// table. A call may have found its entry just before that, and be held up: for as
// many rounds again what it counts there is taken, too.
func (c *Counts) take(yield func(app, route string, used Used)) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.retired = slices.DeleteFunc(s.retired, func(e *entry) bool {
			if used := e.take(); used != (Used{}) {
				yield(e.app, e.route, used)
			}
			e.idle++
			return e.idle > 2*idleRounds
		})
		for b := range s.heads {
			link := &s.heads[b]
			for e := link.Load(); e != nil; e = e.next.Load() {
				used := e.take()
				if used != (Used{}) {
					yield(e.app, e.route, used)
					e.idle = 0
					if used.Calls > busyRound && c.stripes > 1 && e.more.Load() == nil {
						more := make([]stripe, c.stripes)
						e.more.Store(&more)
					}
				} else if e.idle++; e.idle > idleRounds {
					s.retire(link, e)
					continue // link stays: it leads to the one behind e now
				}
				link = &e.next
			}
		}
		s.mu.Unlock()
	}
}

// retire takes the entry that link leads to out of the table. Its own link stays
// as it is, for those who are on it.
func (s *shard) retire(link *atomic.Pointer[entry], e *entry) {
	link.Store(e.next.Load())
	if e.route == OtherRoute {
		s.others--
	} else {
		s.entries--
	}
	s.retired = append(s.retired, e)
}

func (e *entry) take() (u Used) {
	e.first.takeInto(&u)
	if more := e.more.Load(); more != nil {
		for i := range *more {
			(*more)[i].takeInto(&u)
		}
	}
	return u
}

func (s *stripe) takeInto(u *Used) {
	if s.calls.Load() == 0 {
		return // its line stays where it is written
	}
	u.Calls += s.calls.Swap(0)
	u.CallerFailures += s.caller.Swap(0)
	u.GatewayFailures += s.gateway.Swap(0)
	u.BackendFailures += s.backend.Swap(0)
	u.BytesIn += s.in.Swap(0)
	u.BytesOut += s.out.Swap(0)
}
