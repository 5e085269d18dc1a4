package fleet

import (
	"math"
	"sync/atomic"
	"time"
)

// The parameters are zRPC's, which has them from Finagle.
const (
	// decay is the time after which an observation weighs 1/e.
	decay = 10 * time.Second
	// An endpoint with a smaller share of successes than this is avoided.
	healthyShare = 0.5
)

// load is what calls tell of an endpoint, over all connections.
//
// The averages are updated without a lock: of two calls that end at the same
// instant, one may go uncounted.
type load struct {
	inflight atomic.Int64
	conns    atomic.Int64  // connections that have it ready
	picked   atomic.Int64  // when it was last picked, by the fleet's clock
	lag      atomic.Uint64 // EWMA of the calls' durations in ns, as float64 bits; 0: not known
	success  atomic.Uint64 // EWMA of the share of successes, as float64 bits
	lagged   atomic.Int64  // when lag was last updated
	updated  atomic.Int64  // when success was last updated
}

// init begins with the others' mean latency, in ns. With none, an endpoint that
// hangs would be sent nearly all calls until a thousand of them are in flight.
func (l *load) init(lag float64) {
	l.lag.Store(math.Float64bits(lag))
	l.success.Store(math.Float64bits(1))
	l.lagged.Store(-int64(100 * decay)) // the first observation replaces the guess
	l.updated.Store(-int64(100 * decay))
}

// cost compares endpoints; it has no unit. The square root keeps a latency
// twice as high from halving an endpoint's calls.
func (l *load) cost() float64 {
	return math.Sqrt(l.latency()+1) * float64(l.inflight.Load()+1)
}

// latency is the mean in ns; 0: not known.
func (l *load) latency() float64 { return math.Float64frombits(l.lag.Load()) }

// successes is the mean share of them.
func (l *load) successes() float64 { return math.Float64frombits(l.success.Load()) }

func (l *load) healthy() bool { return l.successes() > healthyShare }

// worse prefers a healthy endpoint to one that fails, however fast it fails,
// and else the lower cost.
func (l *load) worse(other *load) bool {
	if healthy := l.healthy(); healthy != other.healthy() {
		return !healthy
	}
	return l.cost() > other.cost()
}

func (l *load) observeLatency(now, latency time.Duration) {
	average(&l.lag, &l.lagged, now, float64(latency))
}

func (l *load) observeOutcome(now time.Duration, o Outcome) {
	success := 0.0
	if o == Success {
		success = 1
	}
	average(&l.success, &l.updated, now, success)
}

// average takes an observation into an EWMA, kept as float64 bits. The longer
// ago the last update, the more the observation weighs.
func average(ewma *atomic.Uint64, updated *atomic.Int64, now time.Duration, observed float64) {
	since := max(0, int64(now)-updated.Swap(int64(now)))
	old := math.Exp(-float64(since) / float64(decay))
	ewma.Store(math.Float64bits(math.Float64frombits(ewma.Load())*old + observed*(1-old)))
}

// InFlight is how many calls it has, over all connections.
func (e *Endpoint) InFlight() int { return int(e.load.inflight.Load()) }

// Connections is how many connections have it ready.
func (e *Endpoint) Connections() int { return int(e.load.conns.Load()) }

// Connected notes that one more connection has the endpoint ready.
func (e *Endpoint) Connected() { e.load.conns.Add(1) }

// Disconnected takes back one Connected.
func (e *Endpoint) Disconnected() { e.load.conns.Add(-1) }
