package balancer

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The parameters are zRPC's, which has them from Finagle.
const (
	// decay is the time after which an observation weighs 1/e.
	decay = 10 * time.Second
	// forceInterval is after how long without a call an endpoint is picked
	// though it looks worse: otherwise one that was slow once would never be
	// tried again.
	forceInterval = time.Second
	// An endpoint with a smaller share of successes than this is drawn again.
	healthyShare = 0.5
	// draws is how often a pair is drawn until both are healthy.
	draws = 3
)

// p2cBuilder makes balancers that send each call to the better of two
// endpoints drawn at random ("power of two choices"), by latency and calls in
// flight: p2c_ewma.
type p2cBuilder struct{}

func (p2cBuilder) Name() string { return p2cName }

// Build makes a picker builder per balancer, which keeps what it knows of the
// endpoints across pickers. A picker is rebuilt whenever one endpoint comes or
// goes, and the others' loads stay known.
func (p2cBuilder) Build(cc balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	pickers := &p2cPickers{epoch: time.Now(), known: map[balancer.SubConn]*endpoint{}}
	return base.NewBalancerBuilder(p2cName, pickers, base.Config{HealthCheck: true}).Build(cc, o)
}

// p2cPickers is used by one balancer, which serializes its calls.
type p2cPickers struct {
	epoch time.Time
	known map[balancer.SubConn]*endpoint
}

// Build implements base.PickerBuilder.
func (b *p2cPickers) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	ready := make([]*endpoint, 0, len(info.ReadySCs))
	for sc := range info.ReadySCs {
		e := b.known[sc]
		if e == nil {
			e = newEndpoint(sc, b.epoch, b.meanLag())
			b.known[sc] = e
		}
		ready = append(ready, e)
	}
	// One that is not ready may be reconnecting, or gone for good, which is not
	// told here. Some of them are remembered.
	for sc := range b.known {
		if len(b.known) <= 2*len(ready) {
			break
		}
		if _, ok := info.ReadySCs[sc]; !ok {
			delete(b.known, sc)
		}
	}
	return &p2cPicker{ready: ready, epoch: b.epoch}
}

// meanLag is the mean of what is known, in ns; 0: nothing is.
func (b *p2cPickers) meanLag() float64 {
	sum, n := 0.0, 0
	for _, e := range b.known {
		if lag := math.Float64frombits(e.lag.Load()); lag > 0 {
			sum += lag
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// p2cPicker takes no lock.
type p2cPicker struct {
	ready []*endpoint
	epoch time.Time
}

func (p *p2cPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	now := time.Since(p.epoch)
	e := p.choose(now)
	e.inflight.Add(1)
	done := func(info balancer.DoneInfo) { e.done(now, info.Err) }
	if isStream(info.Ctx) {
		done = func(info balancer.DoneInfo) { e.doneStream(info.Err) }
	}
	return balancer.PickResult{SubConn: e.conn, Done: done}, nil
}

func (p *p2cPicker) choose(now time.Duration) *endpoint {
	n := len(p.ready)
	if n == 1 {
		return p.ready[0]
	}
	var a, b *endpoint
	for range draws {
		i, j := rand.IntN(n), rand.IntN(n-1) //nolint:gosec // spreads load, guards nothing
		if j >= i {
			j++
		}
		a, b = p.ready[i], p.ready[j]
		if a.healthy() && b.healthy() {
			break
		}
	}
	if a.worse(b) {
		a, b = b, a
	}
	if last := b.picked.Load(); int64(now)-last > int64(forceInterval) && b.picked.CompareAndSwap(last, int64(now)) {
		return b
	}
	a.picked.Store(int64(now))
	return a
}

// endpoint is what is known of one. The averages are updated without a lock:
// of two calls that end at the same instant, one may go uncounted.
type endpoint struct {
	conn  balancer.SubConn
	epoch time.Time

	inflight atomic.Int64
	lag      atomic.Uint64 // EWMA of the calls' durations in ns, as float64 bits
	success  atomic.Uint64 // EWMA of the share of successes, as float64 bits
	lagged   atomic.Int64  // when lag was last updated, since epoch
	updated  atomic.Int64  // when success was last updated, since epoch
	picked   atomic.Int64  // when it was last picked, since epoch
}

// newEndpoint begins with the others' mean latency. With none, an endpoint that
// hangs would be sent nearly all calls until a thousand of them are in flight.
func newEndpoint(conn balancer.SubConn, epoch time.Time, lag float64) *endpoint {
	e := &endpoint{conn: conn, epoch: epoch}
	e.lag.Store(math.Float64bits(lag))
	e.success.Store(math.Float64bits(1))
	e.lagged.Store(-int64(100 * decay)) // the first observation replaces the guess
	e.updated.Store(-int64(100 * decay))
	return e
}

// worse prefers a healthy endpoint to one that fails, however fast it fails,
// and else the lower load.
func (e *endpoint) worse(other *endpoint) bool {
	if healthy := e.healthy(); healthy != other.healthy() {
		return !healthy
	}
	return e.load() > other.load()
}

// load compares endpoints; it has no unit. The square root keeps a latency
// twice as high from halving an endpoint's calls.
func (e *endpoint) load() float64 {
	lag := math.Float64frombits(e.lag.Load())
	return math.Sqrt(lag+1) * float64(e.inflight.Load()+1)
}

func (e *endpoint) healthy() bool {
	return math.Float64frombits(e.success.Load()) > healthyShare
}

// done takes the outcome of a call begun at start into the averages.
func (e *endpoint) done(start time.Duration, err error) {
	e.inflight.Add(-1)
	if status.Code(err) == codes.Canceled {
		return // the caller's doing: neither its duration nor its end say anything
	}
	now := time.Since(e.epoch)
	average(&e.lag, &e.lagged, now, float64(max(0, now-start)))
	e.succeeded(now, err)
}

// doneStream is done for a stream. How long it lives is for its two ends to
// say, and is no latency.
func (e *endpoint) doneStream(err error) {
	e.inflight.Add(-1)
	if status.Code(err) != codes.Canceled {
		e.succeeded(time.Since(e.epoch), err)
	}
}

func (e *endpoint) succeeded(now time.Duration, err error) {
	success := 1.0
	if failed(err) {
		success = 0
	}
	average(&e.success, &e.updated, now, success)
}

// average takes an observation into an EWMA, kept as float64 bits. The longer
// ago the last update, the more the observation weighs.
func average(ewma *atomic.Uint64, updated *atomic.Int64, now time.Duration, observed float64) {
	since := max(0, int64(now)-updated.Swap(int64(now)))
	old := math.Exp(-float64(since) / float64(decay))
	ewma.Store(math.Float64bits(math.Float64frombits(ewma.Load())*old + observed*(1-old)))
}

// failed is zRPC's rule of what speaks against an endpoint.
func failed(err error) bool {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Internal, codes.Unavailable, codes.DataLoss,
		codes.Unimplemented, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}
