// Package sim owns a deterministic simulation of many gateways before many
// endpoints: what a balancing policy does to load, latency and connections at a
// size that no test bench has. The choices are made by package fleet, by the
// very code that serves calls; gateways, endpoints and time are simulated.
//
// The same [Config] gives the same [Result], on any machine.
package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// Config is one run.
type Config struct {
	Gateways, Endpoints int
	Policy              string // of config.Balancer
	Subset              int    // endpoints per gateway; 0: all
	Numbered            bool   // subsets are by the gateways' numbers, not by their ids
	Scenario            Scenario
	// How long calls are made, and from when on they are counted.
	Duration, Warmup time.Duration
	Seed             uint64
}

// How endpoints work and how much there is to do. At the load given, endpoints
// that are all well are busy for 60 % of the time.
const (
	workers     = 4                     // calls that an endpoint serves at once
	meanService = 50 * time.Millisecond // exponentially distributed
	utilization = 0.6
	callTimeout = 2 * time.Second // a call that takes longer has failed
	failAfter   = time.Millisecond
	apps        = 5000 // whose calls ring_hash keeps together
)

// Result is what a run came to, after the warm-up.
type Result struct {
	Calls, Failed int
	// The latency of calls that succeeded.
	P50, P99 time.Duration
	// Calls of the endpoint with the most, over the mean, each by its capacity;
	// and the standard deviation over the mean.
	Max, Deviation float64
	// Connections in all, and of the endpoints with the fewest and the most.
	Conns, MinConns, MaxConns int
}

// Run runs a simulation.
func Run(cfg Config) (Result, error) {
	w := &world{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 0))} //nolint:gosec // it must be the same each time
	if err := w.build(); err != nil {
		return Result{}, err
	}
	w.run()
	return w.result(), nil
}

// world is the state of a run.
type world struct {
	cfg    Config
	random *rand.Rand
	now    time.Duration
	events events

	gateways  []*gateway
	endpoints []*endpoint
	infos     []fleet.Info
	byAddress map[string]int

	calls, failed int
	latencies     histogram
}

// gateway is one, with all that the code under test knows.
type gateway struct {
	fleet *fleet.Fleet
	set   *fleet.Set
	ids   []int // the endpoints of set, in its order
}

// call is one on its way.
type call struct {
	gateway, endpoint int
	choice            fleet.Choice
	began             time.Duration
	failing           bool // the endpoint answers with an error
	over              bool // its caller has an answer, or has given up
}

func (w *world) build() error {
	w.byAddress = make(map[string]int, w.cfg.Endpoints)
	for i := range w.cfg.Endpoints {
		e := w.cfg.Scenario.endpoint(i)
		address := "endpoint-" + strconv.Itoa(i) + ":1"
		w.byAddress[address] = i
		w.endpoints = append(w.endpoints, &e)
		w.infos = append(w.infos, fleet.Info{Address: address, Metadata: map[string]string{"weight": strconv.Itoa(e.workers)}})
	}
	for i := range w.cfg.Gateways {
		cfg := config.DefaultBackend("simulated")
		cfg.Balancer.Policy = w.cfg.Policy
		cfg.Balancer.Subset = config.Subset{Size: w.cfg.Subset, ID: "gateway-" + strconv.Itoa(i)}
		if w.cfg.Numbered {
			cfg.Balancer.Subset.Number = strconv.Itoa(i)
		}
		f, err := fleet.New(cfg, fleet.Options{Now: func() time.Duration { return w.now }, Rand: w.random.Uint64})
		if err != nil {
			return fmt.Errorf("gateway %d: %w", i, err)
		}
		g := &gateway{fleet: f}
		w.gateways = append(w.gateways, g)
		w.discover(g, nil)
		for _, id := range g.ids {
			w.endpoints[id].conns++
		}
		w.events.push(event{at: w.until(w.gatewayRate()), kind: arrival, index: i})
	}
	for i, batch := range w.cfg.Scenario.restarts(w.cfg) {
		w.events.push(event{at: batch.leave, kind: leaving, index: i, batch: batch})
	}
	return nil
}

// discover tells a gateway of the endpoints, but for those that are gone, and
// has it connected to those that it wants.
func (w *world) discover(g *gateway, gone map[int]bool) {
	list := w.infos
	if len(gone) > 0 {
		list = make([]fleet.Info, 0, len(w.infos))
		for i, info := range w.infos {
			if !gone[i] {
				list = append(list, info)
			}
		}
	}
	used := g.fleet.Update(list)
	g.ids = make([]int, len(used))
	for i, e := range used {
		g.ids[i] = w.byAddress[e.Address()]
	}
	g.set = g.fleet.NewSet(used)
}

// gatewayRate is how many calls a second come to each gateway.
func (w *world) gatewayRate() float64 {
	capacity := 0.0
	for _, e := range w.endpoints {
		capacity += float64(e.workers) / meanService.Seconds()
	}
	return utilization * capacity / float64(w.cfg.Gateways)
}

// until draws the time of the next of many independent arrivals.
func (w *world) until(rate float64) time.Duration {
	return w.now + time.Duration(w.random.ExpFloat64()/rate*float64(time.Second))
}

func (w *world) run() {
	rate := w.gatewayRate()
	for {
		e, ok := w.events.pop()
		if !ok {
			return
		}
		w.now = e.at
		switch e.kind {
		case arrival:
			if w.now < w.cfg.Duration {
				w.events.push(event{at: w.until(rate), kind: arrival, index: e.index})
				w.arrive(e.index)
			}
		case finish:
			w.finish(e.call)
		case timeout:
			w.end(e.call, false)
		case leaving, returning:
			w.restart(e)
		}
	}
}

// arrive sends a new call to the endpoint that its gateway chooses.
func (w *world) arrive(index int) {
	g := w.gateways[index]
	c := &call{gateway: index, began: w.now}
	c.choice.Key, c.choice.Keyed = fleet.HashKey(strconv.Itoa(w.random.IntN(apps))), true
	i := g.set.Pick(&c.choice)
	if i < 0 {
		w.count(c, false)
		return
	}
	c.endpoint = g.ids[i]
	e := w.endpoints[c.endpoint]
	if w.counts(c) {
		e.offered++
	}
	switch {
	case e.fails || e.away:
		c.failing = true
		w.events.push(event{at: w.now + failAfter, kind: finish, call: c})
	case e.busy < e.workers:
		w.serve(e, c)
	default:
		e.queue = append(e.queue, c)
		w.events.push(event{at: c.began + callTimeout, kind: timeout, call: c})
	}
}

func (w *world) serve(e *endpoint, c *call) {
	e.busy++
	took := time.Duration(w.random.ExpFloat64() * e.slowness * float64(meanService))
	w.events.push(event{at: w.now + took, kind: finish, call: c})
	if w.now == c.began && took > callTimeout { // of one that waited, there is an event already
		w.events.push(event{at: c.began + callTimeout, kind: timeout, call: c})
	}
}

// finish ends a call, and begins the one that has waited longest and is still
// waited for: the deadline goes with a call.
func (w *world) finish(c *call) {
	e := w.endpoints[c.endpoint]
	if !c.failing {
		e.busy--
		for len(e.queue) > 0 && e.busy < e.workers {
			next := e.queue[0]
			e.queue = e.queue[1:]
			if !next.over {
				w.serve(e, next)
			}
		}
	}
	w.end(c, !c.failing)
}

// end tells a call's gateway what became of it, once.
func (w *world) end(c *call, ok bool) {
	if c.over {
		return
	}
	c.over = true
	outcome := fleet.Failure
	if ok {
		outcome = fleet.Success
	}
	w.gateways[c.gateway].fleet.Done(&c.choice, outcome, w.now-c.began)
	w.count(c, ok)
}

// counts tells whether a call began after the warm-up.
func (w *world) counts(c *call) bool { return c.began >= w.cfg.Warmup }

func (w *world) count(c *call, ok bool) {
	if !w.counts(c) {
		return
	}
	w.calls++
	if !ok {
		w.failed++
		return
	}
	w.latencies.add(w.now - c.began)
}

// restart takes a batch of endpoints out of use, or into it again. Each gateway
// knows at once, as of a GOAWAY; calls that they serve are served to the end.
func (w *world) restart(e event) {
	gone := map[int]bool{}
	for i := e.batch.first; i < e.batch.end; i++ {
		w.endpoints[i].away = e.kind == leaving
		gone[i] = e.kind == leaving
	}
	if e.kind == leaving {
		back := e
		back.at, back.kind = e.batch.back, returning
		w.events.push(back)
	} else {
		gone = nil
	}
	for _, g := range w.gateways {
		w.discover(g, gone)
	}
}

func (w *world) result() Result {
	r := Result{Calls: w.calls, Failed: w.failed, P50: w.latencies.quantile(0.5), P99: w.latencies.quantile(0.99), MinConns: math.MaxInt}
	var sum, squares float64
	for _, e := range w.endpoints {
		load := float64(e.offered) / float64(e.workers)
		sum += load
		squares += load * load
		r.Max = max(r.Max, load)
		r.Conns += e.conns
		r.MinConns, r.MaxConns = min(r.MinConns, e.conns), max(r.MaxConns, e.conns)
	}
	n := float64(len(w.endpoints))
	mean := sum / n
	r.Deviation = math.Sqrt(max(0, squares/n-mean*mean)) / mean
	r.Max /= mean
	return r
}
