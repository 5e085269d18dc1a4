package fleet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// withPolicy is a field whose policy is that.
func withPolicy(t testing.TB, n int, policy string) *field {
	t.Helper()
	return newField(t, n, func(b *config.Backend) { b.Balancer.Policy = policy })
}

// tell makes discovery tell of endpoints with metadata: "a zone=x version=v2".
func (d *field) tell(endpoints ...string) {
	list := make([]Info, len(endpoints))
	for i, text := range endpoints {
		words := strings.Fields(text)
		list[i] = Info{Address: words[0] + ":1", Metadata: map[string]string{}}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			list[i].Metadata[key] = value
		}
	}
	d.endpoints = d.Update(list)
	d.set = d.NewSet(d.endpoints)
}

// shares are the parts of n calls that go to each endpoint, each of which takes
// its endpoint's time, one call after the other.
func (d *field) shares(n int, choice func() *Choice, latency map[string]time.Duration) map[string]float64 {
	d.t.Helper()
	shares := map[string]float64{}
	for range n {
		c := choice()
		if d.set.Pick(c) < 0 {
			d.t.Fatal("no endpoint was chosen")
		}
		name := c.Endpoint.address[:1]
		shares[name] += 1 / float64(n)
		d.pass(latency[name])
		d.Done(c, Success, latency[name])
	}
	return shares
}

func whichever() *Choice { return &Choice{} }

func wantShares(t *testing.T, when string, got map[string]float64, tolerance float64, want map[string]float64) {
	t.Helper()
	for name := range got {
		if math.Abs(got[name]-want[name]) > tolerance {
			t.Errorf("%s: shares %v, want %v", when, got, want)
			return
		}
	}
	for name := range want {
		if math.Abs(got[name]-want[name]) > tolerance {
			t.Errorf("%s: shares %v, want %v", when, got, want)
			return
		}
	}
}

func TestPoliciesSpreadEvenly(t *testing.T) {
	t.Parallel()
	for policy, tolerance := range map[string]float64{
		"p2c_ewma": 0.03, "round_robin": 0.001, "weighted_round_robin": 0.001, "least_request": 0.03, "ring_hash": 0.03,
	} {
		d := withPolicy(t, 4, policy)
		quarter := map[string]float64{"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}
		wantShares(t, policy, d.shares(4000, whichever, nil), tolerance, quarter)
		d = withPolicy(t, 1, policy)
		wantShares(t, policy, d.shares(10, whichever, nil), tolerance, map[string]float64{"a": 1})
	}
}

func TestUnknownPolicy(t *testing.T) {
	t.Parallel()
	if _, err := New(config.Backend{Balancer: config.Balancer{Policy: "dice"}}, Options{}); err == nil {
		t.Error("dice is taken for a policy")
	}
}

func TestNoEndpoints(t *testing.T) {
	t.Parallel()
	d := withPolicy(t, 0, "round_robin")
	if i := d.set.Pick(&Choice{}); i != -1 {
		t.Errorf("the choice of none is %d", i)
	}
	d.Done(&Choice{}, Success, 0)
}

func TestRoundRobinTakesTurns(t *testing.T) {
	t.Parallel()
	d := withPolicy(t, 3, "round_robin")
	var order []string
	for range 6 {
		c := d.begin()
		order = append(order, c.Endpoint.address[:1])
		d.Done(c, Success, 0)
	}
	if !slices.Equal(order[:3], order[3:]) {
		t.Errorf("the turns are %v", order)
	}
	if slices.Sort(order[:3]); !slices.Equal(order[:3], []string{"a", "b", "c"}) {
		t.Errorf("a round is %v", order[:3])
	}
	// Each connection begins at another endpoint.
	first := map[string]bool{}
	for range 50 {
		d.set = d.NewSet(d.endpoints)
		first[d.begin().Endpoint.address] = true
	}
	if len(first) != 3 {
		t.Errorf("connections begin with %v", first)
	}
}

func TestLeastRequestPrefersTheIdle(t *testing.T) {
	t.Parallel()
	d := withPolicy(t, 3, "least_request")
	for range 10 {
		d.beginAt(0)
	}
	// Drawn are two; the busy one is picked only if drawn twice, which is not.
	wantShares(t, "one busy", d.shares(3000, whichever, nil), 0.05, map[string]float64{"b": 0.5, "c": 0.5})
}

func TestWeights(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		endpoints []string
		want      map[string]float64
	}{
		{[]string{"a weight=1", "b weight=2", "c weight=5"}, map[string]float64{"a": 0.125, "b": 0.25, "c": 0.625}},
		{[]string{"a", "b weight=3"}, map[string]float64{"a": 0.25, "b": 0.75}},
		{[]string{"a weight=0.5", "b weight=1.5"}, map[string]float64{"a": 0.25, "b": 0.75}},
		{[]string{"a weight=0", "b weight=1", "c weight=1"}, map[string]float64{"b": 0.5, "c": 0.5}},
		{[]string{"a weight=0", "b weight=0"}, map[string]float64{"a": 0.5, "b": 0.5}},
		{[]string{"a weight=much", "b weight=-3", "c weight=NaN", "d weight=1e300"}, map[string]float64{"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}},
		{[]string{"a weight=1000", "b weight=1"}, map[string]float64{"a": 0.999, "b": 0.001}},
	} {
		d := withPolicy(t, 0, "weighted_round_robin")
		d.tell(tt.endpoints...)
		wantShares(t, fmt.Sprint(tt.endpoints), d.shares(8000, whichever, nil), 0.002, tt.want)
	}
}

// Weights are spread over the turns, and not one endpoint's after the other's.
func TestWeightsAreSpread(t *testing.T) {
	t.Parallel()
	d := withPolicy(t, 0, "weighted_round_robin")
	d.tell("a weight=1", "b weight=1", "c weight=2")
	row := ""
	for range 400 {
		c := d.begin()
		row += c.Endpoint.address[:1]
		d.Done(c, Success, 0)
	}
	if strings.Contains(row, "ccc") || strings.Contains(row, "aa") || strings.Contains(row, "bb") {
		t.Errorf("the turns are %s", row)
	}
}

// A changed weight takes effect without a new set, as metadata or as a report.
func TestWeightsChange(t *testing.T) {
	t.Parallel()
	d := withPolicy(t, 0, "weighted_round_robin")
	d.tell("a", "b")
	d.shares(10, whichever, nil)
	set := d.set
	d.tell("a", "b weight=3")
	d.set = set
	wantShares(t, "new metadata", d.shares(4000, whichever, nil), 0.01, map[string]float64{"a": 0.25, "b": 0.75})
}

func TestLoadReports(t *testing.T) {
	t.Parallel()
	d := withPolicy(t, 0, "weighted_round_robin")
	d.tell("a", "b", "c")
	a, b, c := d.endpoints[0], d.endpoints[1], d.endpoints[2]
	even := map[string]float64{"a": 1. / 3, "b": 1. / 3, "c": 1. / 3}
	report := func() {
		a.Reported(LoadReport{Utilization: 0.5, QPS: 100})          // 200
		b.Reported(LoadReport{Utilization: 0.5, QPS: 100, EPS: 50}) // 100: it fails half of them
	}
	report()
	wantShares(t, "during the blackout", d.shares(3000, whichever, nil), 0.01, even)
	d.pass(blackout)
	report()
	// c has said nothing and gets the mean, 150.
	weighed := map[string]float64{"a": 200. / 450, "b": 100. / 450, "c": 150. / 450}
	wantShares(t, "after it", d.shares(9000, whichever, nil), 0.01, weighed)
	c.Reported(LoadReport{QPS: 1000})       // says nothing
	c.Reported(LoadReport{Utilization: 10}) // 〃
	d.pass(weightInterval)
	wantShares(t, "after empty reports", d.shares(9000, whichever, nil), 0.01, weighed)
	d.pass(expiration)
	wantShares(t, "when they are old", d.shares(3000, whichever, nil), 0.01, even)
	report()
	d.pass(weightInterval)
	wantShares(t, "when they begin again", d.shares(3000, whichever, nil), 0.01, even)
}

// What an endpoint reports is its own say, and may be anything.
func TestLoadReportsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	even := map[string]float64{"a": 1. / 3, "b": 1. / 3, "c": 1. / 3}
	for _, l := range []LoadReport{
		{Utilization: math.NaN(), QPS: 100},
		{Utilization: 1, QPS: math.NaN()},
		{Utilization: 1, QPS: 100, EPS: math.NaN()},
		{Utilization: math.Inf(1), QPS: math.Inf(1)},
		{Utilization: 1, QPS: math.Inf(1)},
		{Utilization: 1, QPS: math.MaxFloat64},
		{Utilization: math.SmallestNonzeroFloat64, QPS: 1},
		{Utilization: 1, QPS: math.SmallestNonzeroFloat64},
		{Utilization: math.MaxFloat64, QPS: 1},
	} {
		d := withPolicy(t, 0, "weighted_round_robin")
		d.tell("a", "b", "c")
		for range 2 {
			d.endpoints[0].Reported(l)
			d.endpoints[1].Reported(LoadReport{Utilization: 1, QPS: 100})
			d.pass(blackout)
		}
		wantShares(t, fmt.Sprintf("after %+v", l), d.shares(3000, whichever, nil), 0.01, even)
	}
	// The least of weights is no cause for a measure without bounds.
	d := withPolicy(t, 0, "weighted_round_robin")
	d.tell("a weight=1e-320", "b weight=1", "c weight=1")
	for range 2 {
		d.endpoints[0].Reported(LoadReport{Utilization: 1, QPS: 1e9})
		d.pass(blackout)
	}
	wantShares(t, "beside a weight of next to nothing", d.shares(3000, whichever, nil), 0.01, map[string]float64{"b": 0.5, "c": 0.5})
}

// Without a report an endpoint is taken for what its metadata says, by the
// measure of those that report.
func TestLoadReportsBesideMetadata(t *testing.T) {
	t.Parallel()
	d := withPolicy(t, 0, "weighted_round_robin")
	d.tell("a weight=1", "b weight=3", "c weight=0")
	for range 2 {
		for _, e := range d.endpoints {
			if e.Address() != "b:1" {
				e.Reported(LoadReport{Utilization: 1, QPS: 100})
			}
		}
		d.pass(blackout)
	}
	wantShares(t, "b says nothing, c wants nothing", d.shares(4000, whichever, nil), 0.01, map[string]float64{"a": 0.25, "b": 0.75})
}

func keyed(key string) func() *Choice {
	return func() *Choice { return &Choice{Key: HashKey(key), Keyed: true} }
}

// homes is where each of many keys goes.
func (d *field) homes(keys int) []string {
	homes := make([]string, keys)
	for i := range homes {
		c := keyed(fmt.Sprint(i))()
		if d.set.Pick(c) < 0 {
			d.t.Fatal("no endpoint was chosen")
		}
		homes[i] = c.Endpoint.Address()
		d.Done(c, Success, 0)
	}
	return homes
}

func TestRingHashMovesLittle(t *testing.T) {
	t.Parallel()
	const keys = 10_000
	d := withPolicy(t, 10, "ring_hash")
	before := d.homes(keys)
	count := map[string]int{}
	for _, home := range before {
		count[home]++
	}
	for home, n := range count {
		if n < keys/10*85/100 || n > keys/10*115/100 {
			t.Errorf("%s has %d keys of %d", home, n, keys)
		}
	}
	// Another order of the list, and another gateway, change nothing.
	slices.Reverse(d.endpoints)
	d.set = d.NewSet(d.endpoints)
	if !slices.Equal(d.homes(keys), before) {
		t.Error("keys move when the order does")
	}
	// One comes: it takes its share of the keys, and no other key moves.
	d.use(11)
	taken := 0
	for i, home := range d.homes(keys) {
		if home == before[i] {
			continue
		}
		taken++
		if home != d.endpoints[10].Address() {
			t.Fatalf("key %d moved from %s to %s", i, before[i], home)
		}
	}
	if taken < keys/11*85/100 || taken > keys/11*115/100 {
		t.Errorf("the eleventh endpoint took %d of %d keys", taken, keys)
	}
	// One goes: its keys alone move, and to all others.
	d.use(9)
	heirs := map[string]bool{}
	for i, home := range d.homes(keys) {
		if home == before[i] {
			continue
		}
		if before[i] != "j:1" {
			t.Fatalf("key %d moved from %s to %s", i, before[i], home)
		}
		heirs[home] = true
	}
	if len(heirs) != 9 {
		t.Errorf("the keys of the one that left went to %v", heirs)
	}
}

// The keys of an endpoint that is out of use go to the next, and come back.
func TestRingHashSkipsTheUnusable(t *testing.T) {
	t.Parallel()
	d := withPolicy(t, 5, "ring_hash")
	before := d.homes(1000)
	d.endpoints[2].SetHealth(NotServing)
	for i, home := range d.homes(1000) {
		if (home != before[i]) != (before[i] == "c:1") {
			t.Fatalf("key %d moved from %s to %s", i, before[i], home)
		}
	}
	// A retry of a call goes where its key would be without the endpoint.
	next := d.homes(1000)
	d.endpoints[2].SetHealth(Serving)
	if !slices.Equal(d.homes(1000), before) {
		t.Error("keys did not come back")
	}
	for i := range next {
		c := keyed(fmt.Sprint(i))()
		c.Tried = d.endpoints[2:3]
		d.set.Pick(c)
		if home := c.Endpoint.Address(); home != next[i] {
			t.Fatalf("key %d is tried at %s after c, want %s", i, home, next[i])
		}
		d.Done(c, Success, 0)
	}
	c := keyed("0")()
	c.Tried = d.endpoints
	if d.set.Pick(c); c.Endpoint.Address() != before[0] {
		t.Errorf("with all tried, a key goes to %s instead of %s", c.Endpoint.Address(), before[0])
	}
}

func TestTriedAreAvoided(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"p2c_ewma", "round_robin", "weighted_round_robin", "least_request", "ring_hash"} {
		d := withPolicy(t, 4, policy)
		d.tell("a", "b weight=1000", "c", "d")
		for range 100 {
			c := &Choice{Tried: []*Endpoint{d.endpoints[0], d.endpoints[1]}}
			if d.set.Pick(c); c.tried(c.Endpoint) {
				t.Fatalf("%s: %s was tried", policy, c.Endpoint.Address())
			}
			d.Done(c, Success, 0)
		}
		c := &Choice{Tried: d.endpoints}
		if d.set.Pick(c) < 0 {
			t.Errorf("%s: with all tried, none is chosen", policy)
		}
	}
}

// gRPC picks again for an attempt whose connection turned out dead.
func TestPickedAgain(t *testing.T) {
	t.Parallel()
	d := withPolicy(t, 3, "round_robin")
	c := &Choice{}
	for range 10 {
		d.set.Pick(c)
		total := 0
		for _, e := range d.endpoints {
			total += e.InFlight()
		}
		if total != 1 || c.Endpoint.InFlight() != 1 {
			t.Fatalf("%d calls in flight, %d at the endpoint chosen", total, c.Endpoint.InFlight())
		}
	}
	// No endpoint is left: it has none.
	if d.NewSet(nil).Pick(c); c.Endpoint != nil {
		t.Error("a choice of none keeps its endpoint")
	}
	d.Done(c, Failure, 0)
	for _, e := range d.endpoints {
		if n := e.InFlight(); n != 0 {
			t.Errorf("%d calls in flight at %s", n, e.Address())
		}
	}
}

// A connection that has only endpoints that are out of use calls them rather
// than none, unless more are about to be ready.
func TestOnlyUnusableReady(t *testing.T) {
	t.Parallel()
	d := withPolicy(t, 4, "round_robin")
	d.endpoints[0].SetHealth(NotServing)
	first := d.endpoints[:1]
	if i := d.NewPartialSet(first).Pick(&Choice{}); i != -1 {
		t.Errorf("with more to come, endpoint %d is chosen", i)
	}
	if i := d.NewSet(first).Pick(&Choice{}); i != 0 {
		t.Errorf("the choice of the only one is %d", i)
	}
	if i := d.NewPartialSet(d.endpoints[:2]).Pick(&Choice{}); i != 1 {
		t.Errorf("the choice of one well and one sick is %d", i)
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	for _, policy := range []string{"p2c_ewma", "round_robin", "weighted_round_robin", "least_request", "ring_hash"} {
		d := withPolicy(t, 0, policy)
		d.tell("a version=v2", "b weight=2 version=v2", "c")
		filters := []*Filter{nil, NewFilter(config.Match{"version": "v2"})}
		tried := d.endpoints[:1]
		for _, filter := range filters {
			c := &Choice{}
			if n := testing.AllocsPerRun(1000, func() {
				*c = Choice{Key: 1, Keyed: true, Filter: filter, Tried: tried}
				d.set.Pick(c)
				d.Done(c, Success, ms)
			}); n != 0 {
				t.Errorf("%s: %v allocations a pick", policy, n)
			}
		}
	}
}

// Picks, outcomes, reports, health and lists at once; for the race detector.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"p2c_ewma", "round_robin", "weighted_round_robin", "least_request", "ring_hash"} {
		d := withPolicy(t, 5, policy)
		list := slices.Clone(d.list)
		filter := NewFilter(nil, config.Match{"version": "v2"})
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				for i := range 500 {
					c := &Choice{Key: uint64(i), Keyed: true, Stream: i%5 == 0}
					if i%3 == 0 {
						c.Filter = filter
					}
					if d.set.Pick(c); i%7 == 0 {
						d.set.Pick(c)
					}
					if e := c.Endpoint; e != nil && i%11 == 0 {
						e.Reported(LoadReport{Utilization: 1, QPS: float64(i)})
						e.SetHealth(Health(i % 3))
					}
					d.Done(c, Outcome(i%3), time.Duration(i))
					d.pass(ms)
					if worker == 0 && i%50 == 0 {
						d.Update(list[:1+i/50%5])
					}
				}
			})
		}
		wg.Wait()
		d.Update(list)
		for _, m := range d.set.ready {
			if n := m.endpoint.InFlight(); n != 0 {
				t.Errorf("%s: %d calls in flight to %s at the end", policy, n, m.endpoint.Address())
			}
		}
	}
}
