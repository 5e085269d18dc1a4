package fleet

import (
	"sync/atomic"
	"time"
)

// openingLimit is how long the first calls of a fleet wait for endpoints of which
// nothing is known yet, at most. It is how long a client with several addresses
// gives one of them before it goes on to the next (RFC 8305, section 8), and time
// for the three round trips of a TLS connection to 80 ms away.
const openingLimit = 250 * time.Millisecond

// opening is the time in which a fleet's first connections are made.
type opening struct{ began atomic.Int64 } // when the first endpoint was connected to

func (o *opening) init() { o.began.Store(never) }

func (o *opening) begin(now time.Duration) { o.began.CompareAndSwap(never, int64(now)) }

// Opening is how much longer calls may wait for endpoints that are not
// [Endpoint.Known], so that the first ones do not all go to whichever endpoint is
// the first to be connected to. It is of the fleet, not of one connection: after
// it, an endpoint that does not answer delays nobody.
func (f *Fleet) Opening() time.Duration {
	began := f.opening.began.Load()
	if began == never {
		return openingLimit
	}
	return max(0, time.Duration(began)+openingLimit-f.now())
}

// Known tells whether any connection to the endpoint was ever made, or failed.
func (e *Endpoint) Known() bool { return e.reach.known.Load() }
