package fleet

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

func addresses(n int) []Info {
	list := make([]Info, n)
	for i := range list {
		list[i].Address = fmt.Sprintf("10.1.%d.%d:9000", i/250, i%250)
	}
	return list
}

func gatewayIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("gateway-7d4f%08x", mix(uint64(i)+1)>>32) // as a Deployment's pods are called
	}
	return ids
}

// missing counts what is in a and not in b.
func missing(a, b []Info) int {
	has := make(map[string]bool, len(b))
	for _, info := range b {
		has[info.Address] = true
	}
	n := 0
	for _, info := range a {
		if !has[info.Address] {
			n++
		}
	}
	return n
}

// One endpoint that comes or goes changes at most one member of each subset: no
// gateway reshuffles. Without numbers, it changes none but those that it was in.
func TestSubsetKeepsItsMembers(t *testing.T) {
	t.Parallel()
	const size = 20
	list := addresses(1000)
	list[7].Metadata, list[8].Metadata = map[string]string{"zone": "a"}, map[string]string{"zone": "a"}
	random := rand.New(rand.NewPCG(3, 4))
	for _, zone := range []string{"", "a", "b"} {
		for n, id := range gatewayIDs(40) {
			s := subsetter{size: size, zone: zone, id: id, number: -1}
			if n >= 20 {
				s.number = n
			}
			before := s.of(list)
			if len(before) != size || missing(before, list) > 0 {
				t.Fatalf("the subset has %d members, %d of which are not in the list", len(before), missing(before, list))
			}
			shuffled := slices.Clone(list)
			random.Shuffle(len(list), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if n := missing(before, s.of(shuffled)); n > 0 {
				t.Fatalf("another order of the list changes %d members", n)
			}
			for _, i := range append([]int{7, 8}, random.Perm(1000)[:4]...) {
				gone := list[i].Address
				had := slices.ContainsFunc(before, func(info Info) bool { return info.Address == gone })
				after := s.of(slices.Delete(slices.Clone(list), i, i+1))
				changed := missing(before, after)
				if len(after) != size || had && changed != 1 || !had && changed > 0 && (s.number < 0 || changed > 1) {
					t.Fatalf("without one endpoint, which was a member: %v, %d members changed", had, changed)
				}
			}
		}
	}
}

func TestSubsetOfFewIsAll(t *testing.T) {
	t.Parallel()
	list := addresses(5)
	for _, size := range []int{0, 5, 6} {
		if got := (subsetter{size: size, id: "gateway", number: -1}).of(list); len(got) != 5 {
			t.Errorf("a size of %d gives %d of 5 endpoints", size, len(got))
		}
	}
}

// Three quarters are of the own zone, the rest is there for when that fails.
func TestSubsetOfZones(t *testing.T) {
	t.Parallel()
	list := addresses(100)
	for i := range list {
		list[i].Metadata = map[string]string{"zone": string("aabc"[i%4])}
	}
	for _, test := range []struct {
		zone       string
		size, want int
	}{{"a", 20, 15}, {"b", 20, 15}, {"b", 40, 25}, {"d", 20, 0}, {"a", 60, 45}, {"a", 96, 50}, {"a", 1, 1}, {"a", 3, 3}} {
		own := 0
		for _, info := range (subsetter{size: test.size, zone: test.zone, id: "gateway", number: -1}).of(list) {
			if info.Metadata["zone"] == test.zone {
				own++
			}
		}
		if own != test.want {
			t.Errorf("%d of %d members are of zone %s, want %d", own, test.size, test.zone, test.want)
		}
	}
}

// What a fleet uses is its subset; what it knows of the members stays.
func TestFleetUsesItsSubset(t *testing.T) {
	t.Parallel()
	fleetOf := func(id string) *Fleet {
		cfg := config.DefaultBackend("test")
		cfg.Balancer.Subset = config.Subset{Size: 10, ID: id}
		f, err := New(cfg, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	list := addresses(100)
	f := fleetOf("a")
	used := f.Update(list)
	if len(used) != 10 || len(f.all) != 10 {
		t.Fatalf("it uses %d endpoints and knows of %d", len(used), len(f.all))
	}
	again := f.Update(slices.DeleteFunc(list, func(info Info) bool { return info.Address == used[3].Address() }))
	if n := len(slices.DeleteFunc(slices.Clone(again), func(e *Endpoint) bool { return slices.Contains(used, e) })); n != 1 {
		t.Errorf("one endpoint less changes %d members", n)
	}
	if slices.EqualFunc(fleetOf("").Update(list), fleetOf("").Update(list), func(a, b *Endpoint) bool { return a.address == b.address }) {
		t.Error("two gateways without id have the same subset")
	}
}

var compare = flag.Bool("compare", false, "compare the ways to choose subsets with those that were not taken")

// subsetting is a way to choose subsets: that of gateway number i of the list.
type subsetting func(list []Info, size int) func(i int) []Info

func rendezvous(ids []string) subsetting {
	return func(list []Info, size int) func(int) []Info {
		return func(i int) []Info { return subsetter{size: size, id: ids[i], number: -1}.of(list) }
	}
}

// numbered is a ring with the gateways at the places of their numbers.
func numbered(list []Info, size int) func(int) []Info {
	return func(i int) []Info { return subsetter{size: size, number: i}.of(list) }
}

// onRing is numbered with the gateways at the places of their ids' hashes.
func onRing(ids []string) subsetting {
	return func(list []Info, size int) func(int) []Info {
		ring := slices.SortedFunc(slices.Values(list), func(a, b Info) int {
			return cmp.Compare(HashKey(a.Address), HashKey(b.Address))
		})
		return func(i int) []Info {
			start := int(float64(HashKey(ids[i])>>11) / (1 << 53) * float64(len(ring)))
			members := make([]Info, size)
			for j := range members {
				members[j] = ring[(start+j)%len(ring)]
			}
			return members
		}
	}
}

// bounded is rendezvous with bounded loads: gateway i works out what the ones
// before it have chosen, and passes over what they have filled up to a tenth
// above the mean.
func bounded(list []Info, size int) func(int) []Info {
	load := map[string]int{}
	var chosen [][]Info
	return func(i int) []Info {
		for j := len(chosen); j <= i; j++ {
			seed := mix(uint64(j))
			order := make([]ranked, len(list))
			for k, info := range list {
				order[k] = ranked{rank: mix(seed ^ HashKey(info.Address)), place: k}
			}
			slices.SortFunc(order, ranked.compare)
			most := int(math.Ceil(1.1 * float64((j+1)*size) / float64(len(list))))
			var members []Info
			for _, r := range order {
				if info := list[r.place]; load[info.Address] < most && len(members) < size {
					load[info.Address]++
					members = append(members, info)
				}
			}
			chosen = append(chosen, members)
		}
		return chosen[i]
	}
}

// figures of a way to choose subsets.
type figures struct {
	least, most, deviation float64 // of an endpoint's gateways, of the mean
	changed                float64 // share of the gateways that one endpoint less changes
	mostChanged            int     // members of one subset
}

func (way subsetting) figures(gateways int, list []Info, size int) figures {
	loads := map[string]float64{}
	subsets, choose := make([][]Info, gateways), way(list, size)
	for i := range subsets {
		subsets[i] = choose(i)
		for _, info := range subsets[i] {
			loads[info.Address]++
		}
	}
	mean := float64(gateways*size) / float64(len(list))
	f := figures{least: math.Inf(1)}
	for _, info := range list {
		load := loads[info.Address] / mean
		f.least, f.most = min(f.least, load), max(f.most, load)
		f.deviation += (load - 1) * (load - 1)
	}
	f.deviation = math.Sqrt(f.deviation / float64(len(list)))
	choose = way(slices.Delete(slices.Clone(list), 503, 504), size)
	for g := range subsets {
		if n := missing(subsets[g], choose(g)); n > 0 {
			f.changed += 1 / float64(gateways)
			f.mostChanged = max(f.mostChanged, n)
		}
	}
	return f
}

type namedWay struct {
	name string
	way  subsetting
}

// What is claimed of the ways that there are. The whole comparison that
// docs/resilience.md tells of is in the log with -compare.
func TestSubsetsAreEven(t *testing.T) {
	t.Parallel()
	const gateways, endpoints = 1000, 1000
	list, ids := addresses(endpoints), gatewayIDs(gateways)
	ways := []namedWay{{"rendezvous", rendezvous(ids)}, {"ring, gateways by number", numbered}}
	sizes := []int{20}
	if *compare {
		ways = append(ways, namedWay{"ring, gateways by hash of their id", onRing(ids)}, namedWay{"rendezvous, bounded, by number", bounded})
		sizes = append(sizes, 100)
	}
	t.Logf("%-34s %4s %6s %6s %6s %9s %s", "way", "size", "least", "most", "dev.", "gateways", "members")
	for _, size := range sizes {
		for _, way := range ways {
			f := way.way.figures(gateways, list, size)
			t.Logf("%-34s %4d %6.2f %6.2f %6.3f %8.1f%% %d", way.name, size, f.least, f.most, f.deviation, 100*f.changed, f.mostChanged)
			if way.name == "ring, gateways by number" && (f.least < 0.9 || f.most > 1.1 || f.mostChanged > 1) {
				t.Errorf("subsets of %d by number: %+v", size, f)
			}
			if way.name != "rendezvous" {
				continue
			}
			// As even as independent choices can be: five deviations are not exceeded.
			p := float64(size) / endpoints
			deviation := math.Sqrt(gateways*p*(1-p)) / (gateways * p)
			if f.deviation > 1.1*deviation || f.most > 1+5*deviation || f.least < 1-5*deviation {
				t.Errorf("subsets of %d are uneven: %+v", size, f)
			}
			if f.mostChanged > 1 || f.changed > 1.5*p {
				t.Errorf("one endpoint less changes up to %d members of %.1f%% of subsets of %d", f.mostChanged, 100*f.changed, size)
			}
		}
	}
}
