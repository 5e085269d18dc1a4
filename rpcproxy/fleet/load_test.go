package fleet

import (
	"slices"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// p2cField has no ejection, which would take over.
func p2cField(t testing.TB, n int) *field {
	return newField(t, n, func(b *config.Backend) {
		b.Balancer.Policy = "p2c_ewma"
		b.Balancer.SlowStart = 0
		b.Ejection.ConsecutiveFailures, b.Ejection.SuccessDeviations = 0, 0
	})
}

const ms = time.Millisecond

func TestP2CPrefersTheFaster(t *testing.T) {
	t.Parallel()
	d := p2cField(t, 2)
	shares := d.shares(4000, whichever, map[string]time.Duration{"a": 100 * ms, "b": 10 * ms})
	// The slow one is still tried, every second or so.
	if shares["a"] < 0.002 || shares["a"] > 0.05 {
		t.Errorf("shares %v", shares)
	}
}

// An endpoint that was slow and is well again comes back by the calls that try
// it out.
func TestP2CForgets(t *testing.T) {
	t.Parallel()
	d := p2cField(t, 3)
	d.shares(2000, whichever, map[string]time.Duration{"a": time.Second, "b": 10 * ms, "c": 10 * ms})
	if slow, fast := d.endpoints[0].load.cost(), d.endpoints[1].load.cost(); slow < 5*fast {
		t.Fatalf("costs %v and %v while it is slow", slow, fast)
	}
	same := map[string]time.Duration{"a": 10 * ms, "b": 10 * ms, "c": 10 * ms}
	d.shares(12_000, whichever, same) // two minutes
	if once, now := d.endpoints[0].load.cost(), d.endpoints[1].load.cost(); once > 1.1*now {
		t.Errorf("costs %v and %v after two minutes", once, now)
	}
}

// What is known of an endpoint is known in all sets, and while it is in the
// list.
func TestP2CKeepsWhatItKnows(t *testing.T) {
	t.Parallel()
	d := p2cField(t, 2)
	latency := map[string]time.Duration{"a": 500 * ms, "b": 10 * ms, "c": 10 * ms}
	d.shares(1000, whichever, latency)
	d.use(3)
	if shares := d.shares(100, whichever, latency); shares["a"] > 0.1 {
		t.Errorf("shares after another came: %v", shares)
	}
	d.set = d.NewSet(d.endpoints[1:])
	d.set = d.NewSet(d.endpoints)
	if shares := d.shares(50, whichever, latency); shares["a"] > 0.1 {
		t.Errorf("shares after a reconnect: %v", shares)
	}
	d.tell("b", "c")
	d.tell("a", "b", "c")
	if lag := d.endpoints[0].load.latency(); lag > float64(20*ms) {
		t.Errorf("an endpoint that had left is remembered: %v", time.Duration(lag))
	}
}

// A new endpoint that hangs is not sent everything.
func TestP2CNewEndpointThatHangs(t *testing.T) {
	t.Parallel()
	d := p2cField(t, 2)
	d.shares(1000, whichever, map[string]time.Duration{"a": 10 * ms, "b": 10 * ms})
	d.use(3)
	hanging := 0
	for range 1000 {
		c := d.begin()
		if c.Endpoint.Address() == "c:1" {
			hanging++
			continue // never done
		}
		d.pass(10 * ms)
		d.Done(c, Success, 10*ms)
	}
	if hanging > 50 {
		t.Errorf("%d of 1000 calls went to the endpoint that hangs", hanging)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for o, healthy := range map[Outcome]bool{Success: true, Failure: false, Ignored: true} {
		d := p2cField(t, 1)
		for range 20 {
			c := d.begin()
			d.pass(time.Second)
			d.Done(c, o, time.Second)
		}
		e := d.endpoints[0]
		if e.load.healthy() != healthy || e.InFlight() != 0 {
			t.Errorf("after outcomes %v: healthy %v, %d in flight", o, e.load.healthy(), e.InFlight())
		}
		if got := e.load.latency(); got < float64(900*ms) {
			t.Errorf("after outcomes %v: latency %v", o, time.Duration(got))
		}
	}
}

// Calls that their callers gave up, or that a hedge was faster than, took so long
// at least: an endpoint that hangs would else look as it did before. That they
// took less than others do says nothing.
func TestP2CAvoidsWhatCallersGiveUpOn(t *testing.T) {
	t.Parallel()
	d := p2cField(t, 2)
	d.shares(1000, whichever, map[string]time.Duration{"a": 50 * ms, "b": 50 * ms})
	giveUp := func(n int, after time.Duration) (hanging int) {
		for range n {
			c := d.begin()
			if c.Endpoint.Address() == "a:1" {
				hanging++
				d.pass(after)
				d.Done(c, Ignored, after)
				continue
			}
			d.pass(50 * ms)
			d.Done(c, Success, 50*ms)
		}
		return hanging
	}
	if n := giveUp(1000, time.Second); n > 100 {
		t.Errorf("%d of 1000 calls went to the endpoint that hangs", n)
	}
	before := d.endpoints[0].load.latency()
	if giveUp(100, ms); d.endpoints[0].load.latency() < before {
		t.Errorf("calls given up at once made it look faster: %v, was %v", d.endpoints[0].load.latency(), before)
	}
}

// A failing endpoint that answers at once gets fewer calls than a slow good one.
func TestP2CFailingFast(t *testing.T) {
	t.Parallel()
	d := p2cField(t, 2)
	run := func(n int) (toFailing int) {
		for range n {
			c := d.begin()
			if c.Endpoint.Address() == "a:1" {
				toFailing++
				d.pass(ms)
				d.Done(c, Failure, ms)
				continue
			}
			d.pass(50 * ms)
			d.Done(c, Success, 50*ms)
		}
		return toFailing
	}
	run(10_000) // its average falls
	if n := run(1000); n > 100 {
		t.Errorf("%d of 1000 calls went to it", n)
	}
}

// A stream's life is no latency; its end counts, and it is in flight till then.
func TestStreams(t *testing.T) {
	t.Parallel()
	d := p2cField(t, 1)
	e := d.endpoints[0]
	stream := func(life time.Duration, o Outcome) {
		c := &Choice{Stream: true}
		d.set.Pick(c)
		if n := e.InFlight(); n != 1 {
			t.Fatalf("%d in flight", n)
		}
		d.pass(life)
		d.Done(c, o, life)
		d.Done(c, o, life) // once only
	}
	for range 100 {
		stream(0, Success)
	}
	d.shares(1, whichever, map[string]time.Duration{"a": 10 * ms})
	// Learnt as if there were no streams.
	if got := e.load.latency(); got < float64(9*ms) {
		t.Errorf("the first call took 10ms, the latency is %v", time.Duration(got))
	}
	before := e.load.latency()
	stream(time.Hour, Success)
	stream(time.Hour, Ignored)
	if e.load.latency() != before || !e.load.healthy() || e.InFlight() != 0 {
		t.Errorf("latency %v, was %v; healthy %v, %d in flight", e.load.latency(), before, e.load.healthy(), e.InFlight())
	}
	stream(time.Hour, Failure)
	if e.load.latency() != before || e.load.healthy() {
		t.Error("a stream's failure does not count, or its duration does")
	}
}

// How long an attempt waited to be sent says nothing about its endpoint.
func TestWaitIsNoLatency(t *testing.T) {
	t.Parallel()
	d := p2cField(t, 1)
	c := d.begin()
	d.pass(10 * ms)
	d.Done(c, Success, time.Minute)
	if got := time.Duration(d.endpoints[0].load.latency()); got > 10*ms {
		t.Errorf("the latency is %v", got)
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	d := newField(t, 0, nil)
	d.tell("b", "a", "b weight=2", "c")
	var names []string
	for _, e := range d.endpoints {
		names = append(names, e.Address())
	}
	if !slices.Equal(names, []string{"b:1", "a:1", "c:1"}) {
		t.Errorf("endpoints %v", names)
	}
	if w := d.endpoints[0].Info().weight; w != 1 {
		t.Errorf("the second of two of one address counts: weight %v", w)
	}
	b, generation := d.endpoints[0], d.generation()
	d.tell("b", "a", "b weight=2", "c")
	if d.generation() != generation {
		t.Error("the same list is a change")
	}
	d.tell("c", "b version=v2")
	if d.generation() == generation || d.endpoints[1] != b || b.Info().Metadata["version"] != "v2" {
		t.Error("an endpoint that stays is another, or has old metadata")
	}
	if got := d.Endpoints(); !slices.Equal(got, d.endpoints) {
		t.Errorf("%d endpoints are used", len(got))
	}
}
