package fleet

import (
	"strconv"
	"sync"
	"time"
)

// The parameters of load reports are gRFC A58's defaults
// (https://github.com/grpc/proposal/blob/master/A58-client-side-weighted-round-robin-lb-policy.md).
const (
	// errorPenalty is how much failing calls lower a weight.
	errorPenalty = 1
	// blackout is how long an endpoint must have reported before its weight is
	// taken: the first reports of one that starts are not what it will bear.
	blackout = 10 * time.Second
	// expiration is after how long without a report the weight is forgotten.
	expiration = 3 * time.Minute
)

// LoadReport is what an endpoint says of itself (ORCA).
type LoadReport struct {
	// How busy it is: the application's own figure if it gives one, else its
	// processor's; 1 is as busy as it should be.
	Utilization float64
	// Calls a second, and how many of them fail.
	QPS, EPS float64
}

// reports turn into a weight: the calls a second that an endpoint would serve
// when it is fully busy.
type reports struct {
	turns  Turns
	mu     sync.Mutex
	weight float64
	any    bool          // there was one, and it has not expired
	since  time.Duration // when the first came
	last   time.Duration // when the latest came
}

// ReportTurns says which connection listens to the endpoint's reports, where
// they do not come with its answers.
func (e *Endpoint) ReportTurns() *Turns { return &e.reports.turns }

// Reported takes in a report of the endpoint's. Empty ones are passed over, and
// those of which no weight comes that could be; and of two at the same instant one.
func (e *Endpoint) Reported(l LoadReport) {
	if !(l.Utilization > 0 && l.QPS > 0) {
		return
	}
	weight := l.QPS / (l.Utilization + max(0, l.EPS)/l.QPS*errorPenalty)
	if !(weight >= minWeight && weight <= maxReportedWeight) { // not a number, too
		return
	}
	r := &e.reports
	if !r.mu.TryLock() {
		return // calls that end together do not wait for each other
	}
	defer r.mu.Unlock()
	now := e.fleet.now()
	if !r.any || now-r.last >= expiration {
		r.any, r.since = true, now
	}
	r.last = now
	r.weight = weight
}

// current is the weight by reports; 0: none can be relied on.
func (r *reports) current(now time.Duration) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.any || now-r.last >= expiration || now-r.since < blackout {
		return 0
	}
	return r.weight
}

// givenWeight is the weight in an endpoint's metadata: 1 without one, or with
// one that is no number. 0 is for an endpoint that is to get no calls while
// others do.
func givenWeight(metadata map[string]string) float64 {
	text, ok := metadata["weight"]
	if !ok {
		return 1
	}
	weight, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || !(weight >= 0 && weight <= maxGivenWeight):
		return 1
	case weight == 0:
		return 0
	default:
		return max(weight, minWeight)
	}
}

// Weights are bounded so that sums of them are exact enough, and all that is
// reckoned with them finite: a schedule by what is not would never come to an end.
const (
	minWeight         = 1e-9
	maxGivenWeight    = 1e9
	maxReportedWeight = 1e15 // calls a second
)

// weightsOf are the members' weights. One whose reports cannot be relied on is
// taken for what its metadata says, by the measure of those whose can: without
// weights in metadata that is their mean, as in A58; without reports it is what
// the metadata says.
func weightsOf(members []member, now time.Duration) []float64 {
	weights := make([]float64, len(members))
	given := make([]float64, len(members))
	sumReported, sumGiven := 0.0, 0.0
	for i, m := range members {
		given[i] = m.endpoint.Info().weight
		if given[i] == 0 {
			continue // it wants no calls, whatever it reports
		}
		if weights[i] = m.endpoint.reports.current(now); weights[i] > 0 {
			sumReported += weights[i]
			sumGiven += given[i]
		}
	}
	scale := 1.0
	if sumReported > 0 {
		scale = sumReported / sumGiven
	}
	for i := range weights {
		if weights[i] == 0 {
			weights[i] = given[i] * scale
		}
	}
	return weights
}
