package usage

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/rpcgate/rpcgate/limits/keyed"
)

// Bounds of what is counted at once. Apps that have not called for idleRounds
// flushes make room for others.
const (
	maxCounted = 1 << 16 // pairs of an app and a route
	maxOthers  = 1 << 14 // apps that have some calls counted for [OtherRoute], beside those
	idleRounds = 30

	busyRound   = 2000 // calls in one round from which on a counter has stripes
	mostStripes = 16
)

// Counts counts calls in memory until they are taken out of it. Its methods may
// be called by any number of goroutines; take by one at a time.
type Counts struct {
	counted, others *keyed.Table[counterKey, counter]
	stripes         int

	retired []*retired // by take alone

	lost atomic.Int64 // calls that were not counted, for want of room
}

type counterKey struct{ app, route string }

// NewCounts makes an empty one.
func NewCounts() *Counts {
	c := &Counts{
		counted: keyed.New[counterKey, counter](maxCounted),
		others:  keyed.New[counterKey, counter](maxOthers),
		stripes: 1,
	}
	for c.stripes < runtime.GOMAXPROCS(0) && c.stripes < mostStripes {
		c.stripes *= 2
	}
	return c
}

// counter counts an app's calls of one route.
type counter struct {
	first stripe
	more  atomic.Pointer[[]stripe] // once it is busy
	idle  int                      // take: rounds without a call
}

// retired is a counter that is no app's any more. A call that found it just
// before that, and was held up, may still count there.
type retired struct {
	counterKey
	*counter
}

// stripe is a set of counts in a line of memory.
type stripe struct {
	calls, caller, gateway, backend, in, out atomic.Int64

	_ [16]byte
}

// Count counts a call of an app that ended, through whom it failed, and its
// bytes.
func (c *Counts) Count(app, route string, blame Blame, in, out int64) {
	n := c.counted.Get(counterKey{app, route})
	if n == nil {
		if n = c.enter(app, route); n == nil {
			c.lost.Add(1)
			return
		}
	}
	s := &n.first
	if more := n.more.Load(); more != nil {
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

// enter makes a counter, or gives the app's for other routes where there is no
// room; nil where there is none for that either.
func (c *Counts) enter(app, route string) *counter {
	if n := c.counted.Put(counterKey{app, route}); n != nil {
		return n
	}
	key := counterKey{app, OtherRoute}
	if n := c.others.Get(key); n != nil {
		return n
	}
	return c.others.Put(key)
}

// take takes out all that was counted, and gives it app by app and route by
// route, of which some may come twice. Counters that were idle for long are
// retired, and looked at for as many rounds again.
func (c *Counts) take(yield func(app, route string, used Used)) {
	c.retired = slices.DeleteFunc(c.retired, func(r *retired) bool {
		if used := r.take(); used != (Used{}) {
			yield(r.app, r.route, used)
		}
		r.idle++
		return r.idle > 2*idleRounds
	})
	keep := func(k counterKey, n *counter) bool {
		used := n.take()
		if used == (Used{}) {
			if n.idle++; n.idle > idleRounds {
				c.retired = append(c.retired, &retired{k, n})
				return false
			}
			return true
		}
		yield(k.app, k.route, used)
		n.idle = 0
		if used.Calls > busyRound && c.stripes > 1 && n.more.Load() == nil {
			more := make([]stripe, c.stripes)
			n.more.Store(&more)
		}
		return true
	}
	c.counted.Sweep(keep)
	c.others.Sweep(keep)
}

func (n *counter) take() (u Used) {
	n.first.takeInto(&u)
	if more := n.more.Load(); more != nil {
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
