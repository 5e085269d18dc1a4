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

// load is what calls tell of an endpoint, over all connections. What each call
// writes stands apart from what few do.
type load struct {
	lag     average // of the calls' durations in ns; 0: not known
	success average // of the share of successes
	_       [cacheLine]byte

	inflight atomic.Int64
	conns    atomic.Int64 // connections that have it ready
	picked   atomic.Int64 // when it was last picked, by the fleet's clock, about
}

// init begins with the others' mean latency, in ns. With none, an endpoint that
// hangs would be sent nearly all calls until a thousand of them are in flight.
func (l *load) init(lag float64) {
	l.lag.init(lag)
	l.success.init(1)
}

// begin counts a call that was sent to the endpoint now.
func (l *load) begin(now time.Duration) {
	l.inflight.Add(1)
	if last := l.picked.Load(); now-time.Duration(last) > pickedStep {
		l.picked.Store(int64(now))
	}
}

// pickedStep is how exactly load.picked is kept.
const pickedStep = forceInterval / 100

// cost compares endpoints; it has no unit. The square root keeps a latency
// twice as high from halving an endpoint's calls.
func (l *load) cost() float64 {
	return math.Sqrt(l.latency()+1) * float64(l.inflight.Load()+1)
}

// latency is the mean in ns; 0: not known.
func (l *load) latency() float64 { return l.lag.load() }

// successes is the mean share of them.
func (l *load) successes() float64 { return l.success.load() }

func (l *load) healthy() bool { return l.successes() > healthyShare }

// worse prefers a healthy endpoint to one that fails, however fast it fails,
// and else the lower cost.
func (l *load) worse(other *load) bool {
	if healthy := l.healthy(); healthy != other.healthy() {
		return !healthy
	}
	return l.cost() > other.cost()
}

// observe takes in how a call ended; latency 0: that says nothing. What was
// ignored, because its caller gave it up or had the answer from elsewhere, would
// have taken longer than it did: it can make the mean longer, and not shorter.
func (l *load) observe(now time.Duration, o Outcome, latency time.Duration) {
	if latency > 0 && (o != Ignored || float64(latency) > l.latency()) {
		l.lag.observe(now, float64(latency))
	}
	if o == Ignored {
		return
	}
	success := 0.0
	if o == Success {
		success = 1
	}
	l.success.observe(now, success)
}

// average is an exponentially weighted moving average: the longer ago the last
// observation, the more the next one weighs.
type average struct {
	bits    atomic.Uint64 // of the float64
	updated atomic.Int64  // when the last observation was taken in
}

// averageStep is how much later than the last one an observation must be to be
// taken in. Sooner, it would weigh less than 0.001 %; those that are passed over
// are as good as drawn by lot, and their weight goes to the next. So an endpoint
// with very many calls does not have each of them write to the same memory.
const averageStep = 100 * time.Microsecond

func (a *average) init(guess float64) {
	a.bits.Store(math.Float64bits(guess))
	a.updated.Store(-int64(100 * decay)) // the first observation replaces the guess
}

func (a *average) load() float64 { return math.Float64frombits(a.bits.Load()) }

func (a *average) observe(now time.Duration, observed float64) {
	last := a.updated.Load()
	since := now - time.Duration(last)
	if since < averageStep || !a.updated.CompareAndSwap(last, int64(now)) {
		return
	}
	old := math.Exp(-float64(since) / float64(decay))
	a.bits.Store(math.Float64bits(a.load()*old + observed*(1-old)))
}

// InFlight is how many calls it has, over all connections.
func (e *Endpoint) InFlight() int { return int(e.load.inflight.Load()) }

// Connections is how many connections have it ready.
func (e *Endpoint) Connections() int { return int(e.load.conns.Load()) }
