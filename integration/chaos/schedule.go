package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// How many of each there are.
const (
	Endpoints = 5
	Gateways  = 3
)

// Kind is what is done to what.
type Kind string

// Faults of one endpoint, Fault.Target.
const (
	Kill    Kind = "kill"    // kill -9; started again at the fault's end
	Pause   Kind = "pause"   // SIGSTOP, SIGCONT at its end
	Restart Kind = "restart" // SIGTERM; started again once it has ended, and not before the fault's end
	Delay   Kind = "delay"   // what it says comes late
	Reset   Kind = "reset"   // its connections are reset as soon as something is said
	Silence Kind = "silence" // what is said to it and by it vanishes, connections stay open
	Drop    Kind = "drop"    // its connections are closed, new ones refused
)

// Faults of the stores, and of one gateway, Fault.Target.
const (
	EtcdKill       Kind = "etcd-kill"
	EtcdPause      Kind = "etcd-pause"
	RedisKill      Kind = "redis-kill"
	RedisPause     Kind = "redis-pause"
	GatewayKill    Kind = "gateway-kill"    // kill -9; started again at its end
	GatewayRestart Kind = "gateway-restart" // SIGTERM; started again once it has ended
)

// endpointKinds are the faults of one endpoint, and how often each is drawn. A
// rolling restart is no fault of its own, but one Restart after the other.
var endpointKinds = weights{{Kill, 3}, {Pause, 3}, {Restart, 2}, {Delay, 2}, {Reset, 2}, {Silence, 2}, {Drop, 1}, {rolling, 1}}

var otherKinds = weights{{EtcdKill, 1}, {EtcdPause, 1}, {RedisKill, 1}, {RedisPause, 1}, {GatewayKill, 1}, {GatewayRestart, 1}}

const rolling Kind = "rolling"

// Fault is one thing that goes wrong for a while.
type Fault struct {
	At, For time.Duration // since the load began; how long
	Kind    Kind
	Target  int // the number of the endpoint or gateway
	// For Delay.
	Latency, Jitter time.Duration
}

// recovery is how long something may take, after a fault's end, until it serves
// as before: a process starts, a connection is made anew after a pause, an
// ejected endpoint has its first call again.
func (f Fault) recovery() time.Duration {
	switch f.Kind {
	case Restart: // and the end of what is in flight, and a deregistration that has no etcd to go to
		return 5 * time.Second
	case GatewayKill, GatewayRestart:
		return 4 * time.Second
	default:
		return 3 * time.Second
	}
}

// over is when all is as before.
func (f Fault) over() time.Duration { return f.At + f.For + f.recovery() }

// ofEndpoint reports whether the fault is an endpoint's.
func (f Fault) ofEndpoint() bool {
	return slices.ContainsFunc(endpointKinds, func(w weight) bool { return w.kind == f.Kind })
}

func (f Fault) String() string {
	target := ""
	switch {
	case f.ofEndpoint():
		target = fmt.Sprintf(" endpoint %d", f.Target)
	case f.Kind == GatewayKill || f.Kind == GatewayRestart:
		target = fmt.Sprintf(" gateway %d", f.Target)
	}
	if f.Kind == Delay {
		target += fmt.Sprintf(" by %v ± %v", f.Latency, f.Jitter)
	}
	return fmt.Sprintf("%6.2fs %s%s for %v", f.At.Seconds(), f.Kind, target, f.For)
}

// Schedule is faults in the order in which they begin.
type Schedule []Fault

func (s Schedule) String() string {
	var b strings.Builder
	for _, f := range s {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// Sick returns how many endpoints have a fault at a time, or had one that they
// may not be over.
func (s Schedule) Sick(at time.Duration) int {
	n := 0
	for _, f := range s {
		if f.ofEndpoint() && f.At <= at && at < f.over() {
			n++
		}
	}
	return n
}

// quiet is how long there are no faults at the beginning and at the end.
const quiet = time.Second

// Draw returns the schedule of a seed for a load of some length. It is a
// function of these two alone. At each time one endpoint at least is healthy, a
// thing has one fault at a time, and all are over at the end.
func Draw(seed uint64, length time.Duration) Schedule {
	d := drawing{
		random: rand.New(rand.NewPCG(seed, 0x5eed)),
		end:    length - quiet,
	}
	d.endpoints()
	d.others()
	slices.SortStableFunc(d.schedule, func(a, b Fault) int { return int(a.At - b.At) })
	return d.schedule
}

// drawing is a schedule in the making.
type drawing struct {
	random   *rand.Rand
	end      time.Duration
	schedule Schedule
}

// endpoints draws faults of endpoints until the end. What does not fit is left
// out, so that the number of those that are sick goes up and down by itself.
func (d *drawing) endpoints() {
	for at := quiet; at < d.end; at += d.between(200, 1200) {
		kind, target := d.one(endpointKinds), d.random.IntN(Endpoints)
		if kind != rolling {
			d.try(d.fault(at, kind, target))
			continue
		}
		for i := range Endpoints {
			step := Fault{Kind: Restart, At: at, For: 200 * time.Millisecond, Target: (target + i) % Endpoints}
			d.try(step)
			at += 1200 * time.Millisecond
		}
	}
}

// others draws faults of the stores and of gateways, one after the other: a
// gateway needs both stores to start.
func (d *drawing) others() {
	for at := quiet + d.between(0, 2000); at < d.end; at += d.between(300, 1500) {
		f := d.fault(at, d.one(otherKinds), d.random.IntN(Gateways))
		if f.over() <= d.end {
			d.schedule = append(d.schedule, f)
			at = f.over()
		}
	}
}

func (d *drawing) fault(at time.Duration, kind Kind, target int) Fault {
	f := Fault{At: at, Kind: kind, Target: target, For: d.between(300, min(4000, d.end.Milliseconds()/5))}
	if kind == Delay {
		f.Latency = d.between(50, 300)
		f.Jitter = d.between(0, f.Latency.Milliseconds())
	}
	if !f.ofEndpoint() && kind != GatewayKill && kind != GatewayRestart {
		f.Target = 0
	}
	return f
}

// try adds a fault of an endpoint if it fits.
func (d *drawing) try(f Fault) {
	if f.over() > d.end {
		return
	}
	for _, g := range d.schedule {
		if g.Target == f.Target && g.At < f.over() && f.At < g.over() {
			return
		}
	}
	with := append(slices.Clone(d.schedule), f)
	for _, g := range with { // sickness grows where a fault begins
		if g.At >= f.At && g.At < f.over() && with.Sick(g.At) >= Endpoints {
			return
		}
	}
	d.schedule = with
}

// between returns a time of so many milliseconds.
func (d *drawing) between(least, most int64) time.Duration {
	return time.Duration(least+d.random.Int64N(most-least+1)) * time.Millisecond
}

type weight struct {
	kind Kind
	n    int
}

type weights []weight

func (d *drawing) one(of weights) Kind {
	total := 0
	for _, w := range of {
		total += w.n
	}
	at := d.random.IntN(total)
	for _, w := range of {
		if at -= w.n; at < 0 {
			return w.kind
		}
	}
	panic("unreachable")
}
