package limits

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// Load is what the gateway was under since the last [Overload.Adjust].
type Load struct {
	// How long that was.
	Elapsed time.Duration
	// The share of its own processors that it used, 0 to 1. What others use is not
	// in it.
	CPU float64
	// How long its goroutines waited, on average, each time before they ran.
	QueueDelay time.Duration
}

// Tick is how often an [Overload] is to be adjusted.
const Tick = 100 * time.Millisecond

// The number of calls that are admitted follows the load as in DAGOR (Zhou et al.,
// "Overload Control for Scaling WeChat Microservices", SoCC 2018): down by a
// twentieth while there is overload, up by a little while there is none. Who is
// among them is decided by priority first and then, within the priority where
// there is not enough for all, by a share that goes by each app's weight, as in
// CSFQ (Stoica, Shenker and Zhang, "Core-Stateless Fair Queueing", SIGCOMM 1998):
// who sends less than the share loses nothing.
//
// Delay counts as overload only once it was there for a while, as in CoDel (RFC
// 8289), and only while the processors are used up: a delay for which others on
// the machine are to blame does not go away by shedding.
const (
	enoughTicks = 3    // so long is overload borne
	decrease    = 0.95 // of what is admitted, in each tick of overload
	increase    = 1.02 // in each tick without
	alsoMore    = 0.1  // calls a tick, or few would stay few
	// Of what was served when the overload began, so much is always admitted. To
	// refuse a small call costs nearly what it costs to serve it: callers who
	// come back at once when refused keep the delay up whatever is shed, and less
	// than this would only serve fewer of them.
	leastAdmitted = 0.5
	// What ends is what can be served. To admit a tenth less drains the queue that
	// there is; to go on down until it is drained would serve nobody.
	drains = 0.9
	smooth = 0.3 // the weight of one tick in rates
)

// admission is the state of an Overload's Adjust. Rates are calls a tick.
type admission struct {
	cpuLimit   float64
	delayLimit time.Duration

	seen  [cellCount][priorities]uint32  // the cells' arrived, the last time
	rates [cellCount][priorities]float64 // smoothed

	cpu      float64
	delay    time.Duration
	inFlight int
	admitted float64 // smoothed
	done     float64 // calls that ended, smoothed
	over     int     // ticks of overload in a row
	target   float64 // how many to admit; 0: all
	least    float64
	demanded float64  // how many came, when target was given out
	demands  []demand // for share
}

// demand is what calls of one cell and priority come at.
type demand struct {
	rate   float64
	weight float64
	cell   *cell
}

func (a *admission) init(cfg config.Overload) {
	a.cpuLimit, a.delayLimit = cfg.CPU, cfg.QueueDelay
	a.demands = make([]demand, 0, cellCount)
}

// Adjust takes in the load of the latest tick, and decides by it what is admitted
// in the next.
func (o *Overload) Adjust(l Load) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := &o.admission
	ticks := max(l.Elapsed.Seconds()/Tick.Seconds(), 0.01)
	weight := 1 - math.Pow(1-smooth, ticks)
	admitted, now := a.count(o, ticks, weight), o.InFlight()
	a.admitted += weight * (admitted - a.admitted)
	a.done += weight * (admitted - float64(now-a.inFlight)/ticks - a.done)
	a.inFlight = now
	a.cpu, a.delay = l.CPU, l.QueueDelay

	if a.overloaded(l) {
		a.over++
	} else {
		a.over = 0
	}
	switch {
	case a.target == 0 && a.over < enoughTicks:
		return
	case a.target == 0:
		a.least = leastAdmitted * max(0, min(a.admitted, a.done))
		a.target = max(a.admitted/2, drains*min(a.admitted, a.done))
	case a.over > 0:
		a.target = max(decrease*min(a.target, a.admitted), drains*a.done)
	default:
		a.target = increase*a.target + alsoMore
	}
	a.target = max(a.target, a.least, alsoMore)
	if a.demanded = a.share(o); a.target > 2*a.demanded {
		a.target = 0
		o.shedding.Store(false)
		o.floor.Store(0)
	}
}

// overloaded says whether calls wait for too long for want of the gateway's own
// processors.
func (a *admission) overloaded(l Load) bool {
	if a.cpuLimit == 0 && a.delayLimit == 0 {
		return false
	}
	return a.cpu >= a.cpuLimit && l.QueueDelay >= a.delayLimit
}

// count takes in what has arrived, and tells how many calls a tick were admitted.
// Of priorities below the floor nothing arrives: what was known of them stays.
func (a *admission) count(o *Overload, ticks, weight float64) (admitted float64) {
	floor, shedding := Priority(o.floor.Load()), o.shedding.Load()
	for i := range o.cells {
		c := &o.cells[i]
		for p := floor; p < priorities; p++ {
			total := c.arrived[p].Load()
			n := float64(total-a.seen[i][p]) / ticks
			a.seen[i][p] = total
			rate := &a.rates[i][p]
			if n == 0 && *rate == 0 {
				continue
			}
			if *rate += weight * (n - *rate); *rate < 1e-3 {
				*rate = 0
			}
			if shedding {
				n *= float64(c.admit[p].Load()) / math.MaxUint32
			}
			admitted += n
		}
	}
	return admitted
}

// share gives target out, to the highest priority first. It tells how many calls
// there are in all.
func (a *admission) share(o *Overload) (demanded float64) {
	left, floor := a.target, Priority(0)
	for p := Priority(priorities); p > 0; {
		p--
		a.demands = a.demands[:0]
		sum := 0.0
		for i := range o.cells {
			if rate := a.rates[i][p]; rate > 0 {
				weight := float64(max(o.cells[i].weight.Load(), 1))
				a.demands = append(a.demands, demand{rate, weight, &o.cells[i]})
				sum += rate
			} else {
				o.cells[i].admit[p].Store(math.MaxUint32) // who comes now has had nothing
			}
		}
		demanded += sum
		if left <= 0 && floor == 0 {
			floor = p + 1
		}
		fair := fairShare(a.demands, left)
		for _, d := range a.demands {
			admit := uint32(math.MaxUint32)
			if most := fair * d.weight; d.rate > most {
				admit = uint32(most / d.rate * math.MaxUint32)
			}
			d.cell.admit[p].Store(admit)
		}
		left -= sum
	}
	o.floor.Store(uint32(floor))
	o.shedding.Store(true)
	return demanded
}

// fairShare is how much each may have at most for its weight, so that together
// they have left (weighted max-min fairness). It sorts the demands.
func fairShare(demands []demand, left float64) float64 {
	slices.SortFunc(demands, func(a, b demand) int { return cmp.Compare(a.rate/a.weight, b.rate/b.weight) })
	left = max(left, 0)
	weights := 0.0
	for _, d := range demands {
		weights += d.weight
	}
	for _, d := range demands {
		if each := left / weights; d.rate > each*d.weight {
			return each
		}
		left -= d.rate
		weights -= d.weight
	}
	return math.Inf(1)
}

// Status is what an [Overload] is at.
type Status struct {
	// Calls in flight.
	InFlight int `json:"in_flight"`
	// The share of its own processors that the gateway uses.
	CPU float64 `json:"cpu"`
	// How long goroutines wait, each time before they run.
	QueueDelay time.Duration `json:"queue_delay"`
	// The share of calls that is admitted, as they wait for too long; 1: all.
	Admitted float64 `json:"admitted"`
}

// Status tells how the Overload stands, as of the last Adjust.
func (o *Overload) Status() Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := &o.admission
	s := Status{InFlight: o.InFlight(), CPU: a.cpu, QueueDelay: a.delay, Admitted: 1}
	if a.target > 0 {
		s.Admitted = min(1, a.target/a.demanded)
	}
	return s
}
