package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// peer is what an endpoint did in one interval.
type peer struct {
	endpoint *Endpoint
	calls    int64
	share    float64 // of successes
	timed    int64
	mean     float64 // of latency, in ns
}

// An endpoint is an outlier only if it is worse than its peers by this much, too:
// where all do nearly the same, the smallest difference is many standard
// deviations.
const (
	shareTolerance   = 0.05 // one call of twenty
	latencyTolerance = time.Millisecond
)

// forget drops what calls did since the last sweep.
func (e *Endpoint) forget() {
	e.wins.Store(0)
	e.losses.Store(0)
	e.timed.Store(0)
	e.taken.Store(0)
}

// sweep compares the endpoints with each other, by what their calls did since
// the last sweep. There is no timer: the first call that ends after an interval
// sweeps. With few calls intervals are longer; one of twice the length or more
// holds what is too old to act on, and is dropped.
func (f *Fleet) sweep(now time.Duration) {
	cfg := &f.cfg.Ejection
	due := f.sweepDue.Load()
	if int64(now) < due || !f.sweepDue.CompareAndSwap(due, int64(now+cfg.Interval)) {
		return
	}
	f.change(func() {
		f.peers = f.peers[:0]
		for _, e := range f.Endpoints() {
			p := e.takeLocked()
			if p.calls > 0 && e.barred.Load()&barEjected == 0 {
				f.peers = append(f.peers, p)
			}
		}
		if int64(now)-due >= int64(cfg.Interval) {
			return
		}
		changed := false
		eject := func(e *Endpoint, why Reason, detail func() string) {
			changed = f.ejectLocked(e, now, why, detail) || changed
		}
		if cfg.SuccessDeviations > 0 {
			f.compareShares(eject)
		}
		if cfg.LatencyFactor > 0 {
			f.compareLatencies(eject)
		}
		if changed {
			f.settleLocked()
		}
	})
}

// takeLocked takes what an endpoint did since the last sweep.
func (e *Endpoint) takeLocked() peer {
	wins, losses := e.wins.Swap(0), e.losses.Swap(0)
	timed, taken := e.timed.Swap(0), e.taken.Swap(0)
	p := peer{endpoint: e, calls: wins + losses, timed: timed}
	if p.calls > 0 {
		p.share = float64(wins) / float64(p.calls)
		e.lastShare, e.compared = p.share, true
	}
	if timed > 0 {
		p.mean = float64(taken) / float64(timed)
	}
	e.lastWins = wins
	return p
}

// qualifiedLocked are the peers that had enough calls to be compared.
func (f *Fleet) qualifiedLocked(calls func(peer) int64) []peer {
	f.qualified = f.qualified[:0]
	for _, p := range f.peers {
		if calls(p) >= int64(f.cfg.Ejection.MinCalls) {
			f.qualified = append(f.qualified, p)
		}
	}
	return f.qualified
}

type ejectFunc func(e *Endpoint, why Reason, detail func() string)

// compareShares ejects whose share of successes is too far below that of the
// others. Envoy and gRFC A50 take the mean and the standard deviation of all,
// the outlier among them, and so find none among fewer than six endpoints: of n
// values none is more than (n-1)/√n deviations from the mean.
func (f *Fleet) compareShares(eject ejectFunc) {
	cfg := &f.cfg.Ejection
	peers := f.qualifiedLocked(func(p peer) int64 { return p.calls })
	n := float64(len(peers))
	if len(peers) < max(2, cfg.MinEndpoints) {
		return
	}
	var sum, squares float64
	for _, p := range peers {
		sum += p.share
		squares += p.share * p.share
	}
	// The worst first: there may not be room for all.
	slices.SortStableFunc(peers, func(a, b peer) int { return cmp.Compare(a.share, b.share) })
	for _, p := range peers {
		mean := (sum - p.share) / (n - 1)
		deviation := math.Sqrt(max(0, (squares-p.share*p.share)/(n-1)-mean*mean))
		if p.share < mean-max(shareTolerance, cfg.SuccessDeviations*deviation) {
			eject(p.endpoint, SuccessRate, func() string {
				return fmt.Sprintf("%.1f%% of %d calls succeeded, of the others' %.1f%%", 100*p.share, p.calls, 100*mean)
			})
		}
	}
}

// compareLatencies ejects whose mean latency is too many times the median.
func (f *Fleet) compareLatencies(eject ejectFunc) {
	cfg := &f.cfg.Ejection
	peers := f.qualifiedLocked(func(p peer) int64 { return p.timed })
	if len(peers) < max(2, cfg.MinEndpoints) {
		return
	}
	slices.SortStableFunc(peers, func(a, b peer) int { return cmp.Compare(b.mean, a.mean) })
	// Of an even number the lower one of the middle: of two, the faster.
	median := peers[len(peers)/2].mean
	for _, p := range peers {
		if p.mean > max(median*cfg.LatencyFactor, median+float64(latencyTolerance)) {
			eject(p.endpoint, Latency, func() string {
				return fmt.Sprintf("%v on average of %d calls, the others' median is %v",
					time.Duration(p.mean).Round(time.Microsecond), p.timed, time.Duration(median).Round(time.Microsecond))
			})
		}
	}
}
