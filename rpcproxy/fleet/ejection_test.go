package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// field is a fleet of endpoints a, b, c… with a clock that only the test moves.
type field struct {
	*Fleet
	t         testing.TB
	clock     atomic.Int64
	endpoints []*Endpoint
	set       *Set

	mu     sync.Mutex
	events []Event
}

func newField(t testing.TB, n int, change func(*config.Backend)) *field {
	t.Helper()
	cfg := config.DefaultBackend("test")
	cfg.Balancer.Policy = "round_robin"
	if change != nil {
		change(&cfg)
	}
	d := &field{t: t}
	d.clock.Store(int64(time.Hour)) // calls may have begun before the test
	seeded := rand.New(rand.NewPCG(1, 2))
	var guard sync.Mutex
	f, err := New(cfg, Options{
		Now: func() time.Duration { return time.Duration(d.clock.Load()) },
		Rand: func() uint64 {
			guard.Lock()
			defer guard.Unlock()
			return seeded.Uint64()
		},
		Observe: func(e Event) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.events = append(d.events, e)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Fleet = f
	d.use(n)
	return d
}

// use makes discovery tell of n endpoints, all of which are ready.
func (d *field) use(n int) {
	list := make([]Info, n)
	for i := range list {
		list[i] = Info{Address: fmt.Sprintf("%c:1", 'a'+i)}
	}
	d.endpoints = d.Update(list)
	d.set = d.NewSet(d.endpoints)
}

func (d *field) pass(t time.Duration) { d.clock.Add(int64(t)) }

// begin picks for a call that begins now.
func (d *field) begin() *Choice {
	c := &Choice{}
	if d.set.Pick(c) < 0 {
		d.t.Fatal("no endpoint was chosen")
	}
	return c
}

// beginAt is a call that begins now at a certain endpoint.
func (d *field) beginAt(i int) *Choice {
	e := d.endpoints[i]
	e.load.inflight.Add(1)
	return &Choice{Endpoint: e, begun: d.now()}
}

// call makes n calls at an endpoint that end so at once.
func (d *field) call(i, n int, o Outcome) {
	for range n {
		d.Done(d.beginAt(i), o, 0)
	}
}

// took makes n calls at an endpoint that succeed after some time.
func (d *field) took(i, n int, latency time.Duration) {
	for range n {
		c := d.beginAt(i)
		c.begun -= latency
		d.Done(c, Success, latency)
	}
}

// ejectedNow are the names of those ejected.
func (d *field) ejectedNow() string {
	names := ""
	for _, e := range d.endpoints {
		if e.barred.Load()&barEjected != 0 {
			names += e.address[:1]
		}
	}
	return names
}

func (d *field) wantEjected(when, want string) {
	d.t.Helper()
	if got := d.ejectedNow(); got != want {
		d.t.Errorf("%s: ejected are %q, want %q", when, got, want)
	}
}

// served are the endpoints that n calls in a row go to, of which all succeed.
func (d *field) served(n int) map[string]int {
	served := map[string]int{}
	for range n {
		c := d.begin()
		served[c.Endpoint.address[:1]]++
		d.Done(c, Success, 0)
	}
	return served
}

func (d *field) told(kind EventKind) []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.events), func(e Event) bool { return e.Kind != kind })
}

func TestFailuresInARowEject(t *testing.T) {
	t.Parallel()
	d := newField(t, 4, nil)
	d.call(0, 4, Failure)
	d.call(0, 1, Success)
	d.call(0, 4, Failure)
	d.call(0, 10, Ignored)
	d.wantEjected("after 4 failures, a success, 4 more", "")
	d.call(0, 1, Failure)
	d.wantEjected("after the fifth", "a")
	if n := d.served(40)["a"]; n != 0 {
		t.Errorf("the ejected endpoint got %d calls", n)
	}
	events := d.told(Ejected)
	if len(events) != 1 || events[0] != (Event{
		Kind: Ejected, Address: "a:1", Reason: ConsecutiveFailures, Detail: "5 failures in a row", For: 5 * time.Second,
	}) {
		t.Errorf("told %+v", events)
	}
}

func TestTrialBringsBack(t *testing.T) {
	t.Parallel()
	d := newField(t, 4, nil)
	d.call(0, 5, Failure)
	d.pass(5*time.Second - 1)
	if n := d.served(40)["a"]; n != 0 {
		t.Errorf("before its time was up the endpoint got %d calls", n)
	}
	d.pass(time.Second)
	trial := d.begin()
	if trial.Endpoint != d.endpoints[0] {
		t.Fatalf("the first call after the time is no trial, but went to %s", trial.Endpoint.address)
	}
	// No other while that one is under way, whatever time passes between.
	for range 10 {
		if n := d.served(4)["a"]; n != 0 {
			t.Error("there was another call beside the trial")
		}
		d.pass(20 * time.Millisecond)
	}
	d.Done(trial, Success, 0)
	d.wantEjected("after the trial succeeded", "")
	if n := d.served(40)["a"]; n != 10 {
		t.Errorf("the endpoint that is back got %d of 40 calls", n)
	}
	if events := d.told(Readmitted); len(events) != 1 || events[0].For != 6*time.Second-1+200*time.Millisecond {
		t.Errorf("told %+v", events)
	}
}

func TestTrialThatSaysNothingIsRepeated(t *testing.T) {
	t.Parallel()
	d := newField(t, 3, nil)
	d.call(0, 5, Failure)
	d.pass(6 * time.Second)
	trial := d.begin()
	d.Done(trial, Ignored, 0)
	d.wantEjected("after a trial whose caller went away", "a")
	d.pass(trialScan)
	again := d.begin()
	if again.Endpoint != d.endpoints[0] {
		t.Errorf("there was no other trial")
	}
	// A pick that came to nothing is none either.
	d.set.Pick(again)
	if again.Endpoint == d.endpoints[0] {
		t.Errorf("the endpoint whose connection was lost was tried again at once")
	}
	d.pass(trialScan)
	hangs := d.begin()
	if hangs.Endpoint != d.endpoints[0] {
		t.Fatalf("no trial after a pick that came to nothing")
	}
	d.pass(trialPatience)
	if c := d.begin(); c.Endpoint != d.endpoints[0] {
		t.Errorf("a trial that hangs keeps all others from being made")
	}
}

// A stream shows by its header that the endpoint is well; that it breaks later
// says nothing about the endpoint as it is then.
func TestStreamAsTrial(t *testing.T) {
	t.Parallel()
	d := newField(t, 3, nil)
	d.call(0, 5, Failure)
	d.Progress(&Choice{})
	early := d.beginAt(0)
	d.Progress(early)
	d.wantEjected("after an answer to a call from before the time was up", "a")
	d.pass(6 * time.Second)
	stream := d.begin()
	d.pass(time.Second)
	d.Progress(stream)
	d.wantEjected("after the header of the stream that tries it out", "")
	d.pass(time.Hour)
	d.Done(stream, Failure, 0)
	if n := d.endpoints[0].failures.Load(); n != 0 {
		t.Errorf("%d failures are held against it", n)
	}
	d.call(0, 4, Failure)
	d.Progress(d.beginAt(0))
	d.call(0, 4, Failure)
	d.wantEjected("after 4 failures, a header, 4 failures", "")
}

// A breaker that is open lets a call through now and then. Not all of them may be
// trials of the endpoint that is down.
func TestFewCallsAreNotAllTrials(t *testing.T) {
	t.Parallel()
	d := newField(t, 3, nil)
	d.call(0, 5, Failure)
	trials := 0
	for range 20 {
		d.pass(5 * time.Second)
		c := d.begin()
		o := Success
		if c.Endpoint == d.endpoints[0] {
			trials++
			o = Failure
		}
		d.Done(c, o, 0)
	}
	if trials == 0 || trials > 10 {
		t.Errorf("%d of 20 calls were trials", trials)
	}
}

func TestRetriesAreNoTrials(t *testing.T) {
	t.Parallel()
	d := newField(t, 3, nil)
	d.call(0, 5, Failure)
	d.pass(6 * time.Second)
	c := &Choice{Tried: []*Endpoint{d.endpoints[1]}}
	if d.set.Pick(c); c.Endpoint != d.endpoints[2] {
		t.Errorf("a call that has failed once went to %s", c.Endpoint.address)
	}
}

// Each failed trial, and each ejection soon after the last, lasts longer.
func TestEjectionsGrowAndAreForgotten(t *testing.T) {
	t.Parallel()
	d := newField(t, 3, func(b *config.Backend) { b.Ejection.MaxTime = 18 * time.Second })
	d.call(0, 5, Failure)
	for _, seconds := range []int{5, 10, 15, 18, 18} {
		want := time.Duration(seconds) * time.Second
		d.call(1, 1, Success) // others are well
		events := d.told(Ejected)
		if last := events[len(events)-1]; last.For != want {
			t.Fatalf("ejection %d lasts %v, want %v", len(events), last.For, want)
		}
		d.pass(want)
		d.call(0, 1, Failure)
	}
	d.pass(18 * time.Second)
	d.call(0, 1, Success)
	d.wantEjected("after a trial", "")

	// Two intervals of 10s in use are two times that are forgotten, of four.
	d.pass(25 * time.Second)
	d.call(0, 5, Failure)
	events := d.told(Ejected)
	if last := events[len(events)-1]; last.For != 15*time.Second || last.Reason != ConsecutiveFailures {
		t.Errorf("after some time in use it is ejected for %v because of %s", last.For, last.Reason)
	}
	d.pass(15 * time.Second)
	d.call(0, 1, Success)
	d.pass(time.Hour)
	d.call(0, 5, Failure)
	events = d.told(Ejected)
	if last := events[len(events)-1]; last.For != 5*time.Second {
		t.Errorf("after an hour in use it is ejected for %v", last.For)
	}
}

// With all endpoints down for long, each must be tried soon after they are back.
func TestEjectionsDoNotGrowWhileAllFail(t *testing.T) {
	t.Parallel()
	d := newField(t, 3, nil)
	d.call(0, 5, Failure)
	for range 20 {
		d.pass(12 * time.Second)
		d.call(0, 1, Failure)
		d.call(1, 7, Failure)
		d.call(2, 7, Failure)
	}
	for _, e := range d.told(Ejected) {
		if e.For != 5*time.Second {
			t.Errorf("ejected for %v", e.For)
		}
	}
}

// A call is counted where it began: what it does after its endpoint was ejected
// or readmitted is about what the endpoint was before.
func TestLateResultsDecideNothing(t *testing.T) {
	t.Parallel()
	d := newField(t, 3, nil)
	late := make([]*Choice, 30)
	for i := range late {
		late[i] = d.beginAt(0)
	}
	d.pass(time.Millisecond)
	d.call(0, 5, Failure)
	until := d.endpoints[0].until.Load()
	d.pass(time.Second)
	for _, c := range late[:10] {
		d.Done(c, Failure, 0)
	}
	if got := d.endpoints[0].until.Load(); got != until || len(d.told(Ejected)) != 1 {
		t.Errorf("calls from before made the ejection last until %v instead of %v", got, until)
	}
	d.pass(time.Minute)
	d.Done(late[10], Success, 0)
	d.wantEjected("after a success from before the ejection", "a")
	d.Done(late[11], Failure, 0)
	if len(d.told(Ejected)) != 1 {
		t.Error("a failure from before the ejection counts as a trial's")
	}
	d.call(0, 1, Success)
	d.wantEjected("after a trial", "")
	for _, c := range late[12:] {
		d.Done(c, Failure, 0)
	}
	d.wantEjected("after failures from before it was readmitted", "")
}

func TestShareOfEjectionsIsBounded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		endpoints int
		share     float64
		want      int
	}{
		{1, 0.5, 0}, {1, 1, 0}, {2, 0.1, 1}, {2, 0.5, 1}, {3, 0.5, 1}, {4, 0.5, 2}, {10, 0.3, 3}, {10, 0.05, 1},
		{5, 0, 0}, {5, 1, 5},
	} {
		d := newField(t, test.endpoints, func(b *config.Backend) { b.Ejection.MaxShare = test.share })
		for i := range d.endpoints {
			d.call(i, 20, Failure)
		}
		if got := len(d.ejectedNow()); got != test.want {
			t.Errorf("%d of %d endpoints are ejected with max_share %v, want %d", got, test.endpoints, test.share, test.want)
		}
	}
}

// When endpoints leave, the share holds for those that stay.
func TestShareHoldsWhenEndpointsLeave(t *testing.T) {
	t.Parallel()
	d := newField(t, 8, nil)
	for i := range 4 {
		d.call(i, 5, Failure)
		d.pass(time.Millisecond)
	}
	d.wantEjected("at first", "abcd")
	d.use(5)
	d.wantEjected("with five left", "cd") // the ones ejected last
	d.use(1)
	d.wantEjected("with one left", "")
}

// Every endpoint that there is fails: those that are ejected are no more than
// the share, the others get all calls, and trials go on. With a share of 1 all
// are ejected, which is as if none were: calls go to all alike.
func TestEveryEndpointFails(t *testing.T) {
	t.Parallel()
	d := newField(t, 4, nil)
	for i := range d.endpoints {
		d.call(i, 50, Failure)
	}
	d.wantEjected("by default", "ab")
	if d.panicking() {
		t.Error("panics though half of the endpoints are used")
	}
	if served := d.served(40); served["c"] != 20 || served["d"] != 20 {
		t.Errorf("calls went to %v", served)
	}

	d = newField(t, 4, func(b *config.Backend) { b.Ejection.MaxShare = 1 })
	for i := range d.endpoints {
		d.call(i, 50, Failure)
	}
	d.wantEjected("with max_share 1", "abcd")
	if !d.panicking() || len(d.told(PanicBegan)) != 1 {
		t.Error("does not panic with every endpoint ejected")
	}
	if served := d.served(40); served["a"] != 10 || served["d"] != 10 {
		t.Errorf("calls went to %v", served)
	}
	d.wantEjected("after successes before the time was up", "abcd")
	d.pass(6 * time.Second)
	d.served(40) // any call is as good as a trial
	d.wantEjected("after successes when the time was up", "")
	if d.panicking() || len(d.told(PanicEnded)) != 1 {
		t.Error("goes on panicking")
	}

	// With a panic threshold of 0 it is so, too: whatever may succeed is tried.
	d = newField(t, 2, func(b *config.Backend) { b.Ejection.MaxShare, b.Ejection.PanicThreshold = 1, 0 })
	d.call(0, 5, Failure)
	d.call(1, 5, Failure)
	if served := d.served(10); served["a"] != 5 || !d.panicking() {
		t.Errorf("calls went to %v", served)
	}
}

// The share of ejections is never exceeded, whatever happens; and once all is
// well, all endpoints are back.
func TestShareHoldsUnderRandomOutcomes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 7))
		d := newField(t, 1+random.IntN(12), func(b *config.Backend) {
			b.Ejection.MaxShare = random.Float64()
			b.Ejection.ConsecutiveFailures = random.IntN(4)
			b.Ejection.MinCalls = 1 + random.IntN(10)
			b.Ejection.LatencyFactor = float64(random.IntN(3))
			b.Ejection.BaseTime = time.Duration(1 + random.IntN(int(20*time.Second)))
		})
		var calls []*Choice
		for range 2000 {
			switch random.IntN(20) {
			case 0:
				d.use(1 + random.IntN(12))
			case 1:
				d.pass(time.Duration(random.IntN(int(3 * time.Second))))
			case 2:
				d.endpoints[random.IntN(len(d.endpoints))].SetHealth(Health(random.IntN(3)))
			}
			if len(calls) < 10 || random.IntN(2) == 0 {
				calls = append(calls, d.beginAt(random.IntN(len(d.endpoints))))
			} else {
				i := random.IntN(len(calls))
				d.Done(calls[i], Outcome(random.IntN(3)), time.Duration(random.IntN(int(time.Second))))
				calls = slices.Delete(calls, i, i+1)
			}
			n, most := len(d.ejectedNow()), d.mayEject(len(d.endpoints))
			if n > most || n != d.ejected || most > 1 && float64(most) > d.cfg.Ejection.MaxShare*float64(len(d.endpoints))+1e-6 {
				t.Fatalf("seed %d: %d of %d are ejected, %d by the fleet's count", seed, n, len(d.endpoints), d.ejected)
			}
		}
		for _, e := range d.endpoints {
			e.SetHealth(Serving)
		}
		for range 400 {
			d.pass(time.Second)
			d.served(5)
		}
		d.wantEjected(fmt.Sprintf("seed %d, all well for minutes", seed), "")
		if d.panicking() {
			t.Errorf("seed %d: panics with all well", seed)
		}
	}
}

// Calls in many goroutines, with an endpoint that is sick for a while.
func TestEjectionUnderConcurrency(t *testing.T) {
	t.Parallel()
	d := newField(t, 5, func(b *config.Backend) {
		b.Ejection.BaseTime, b.Ejection.Interval = 3*time.Millisecond, 10*time.Millisecond
		b.Ejection.MaxTime = 20 * time.Millisecond
		b.Ejection.LatencyFactor = 3
	})
	var sick atomic.Bool
	sick.Store(true)
	var trials atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 4000 {
				c := &Choice{}
				if d.set.Pick(c) < 0 {
					t.Error("no endpoint was chosen")
					return
				}
				trial := c.trial
				if trial && trials.Add(1) > 1 {
					t.Error("two trials at a time") // there is but one endpoint to try out
				}
				d.clock.Add(int64(time.Microsecond))
				o := Success
				if sick.Load() && c.Endpoint.address == "a:1" {
					o = Failure
				}
				if trial {
					trials.Add(-1)
				}
				d.Done(c, o, time.Microsecond)
				if i == 2000 {
					sick.Store(false)
				}
			}
		})
	}
	group.Wait()
	if len(d.told(Ejected)) == 0 {
		t.Error("the sick endpoint was not ejected")
	}
	for range 100 {
		d.pass(time.Millisecond)
		d.served(5)
	}
	d.wantEjected("at the end", "")
	for _, e := range d.endpoints {
		if n := e.load.inflight.Load(); n != 0 {
			t.Errorf("%s has %d calls in flight at the end", e.address, n)
		}
	}
}

func BenchmarkObserveSuccess(b *testing.B) {
	for _, parallel := range []bool{false, true} {
		b.Run(fmt.Sprintf("parallel=%v", parallel), func(b *testing.B) {
			d := newField(b, 10, nil)
			b.ReportAllocs()
			run := func(next func() bool) {
				i := rand.IntN(10)
				for next() {
					i = (i + 1) % 10
					c := Choice{Endpoint: d.endpoints[i]}
					d.observe(&c, Success, time.Millisecond, 0)
				}
			}
			if parallel {
				b.SetParallelism(32)
				b.RunParallel(func(pb *testing.PB) { run(pb.Next) })
				return
			}
			run(b.Loop)
		})
	}
}
