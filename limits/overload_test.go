package limits

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// enter lets one call of an app in as far as it goes.
func enter(o *Overload, app string, p Priority) (*Ticket, Verdict) {
	t := new(Ticket)
	v := o.Enter(t, p)
	if v == Admitted {
		v = t.Verify(App{ID: app})
	}
	if v != Admitted {
		t.Leave()
	}
	return t, v
}

// fill lets calls in until one is refused.
func fill(o *Overload, app string, p Priority) (n int, why Verdict) {
	for {
		if _, why = enter(o, app, p); why != Admitted {
			return n, why
		}
		n++
	}
}

func TestMaxCalls(t *testing.T) {
	t.Parallel()
	o := NewOverload(config.Overload{MaxCalls: 1000})
	n, why := fill(o, "flooder", Normal)
	if n < 800 || n > 950 || why != OverShare {
		t.Fatalf("one app gets %d of 1000 slots, then %v", n, why)
	}
	if m, _ := fill(o, "flooder", Low); m != 0 {
		t.Errorf("at its limit it gets %d slots for calls of low priority", m)
	}
	// Another, and then another, still find room; the flooder does not.
	for _, app := range []string{"b", "c"} {
		if n, _ := fill(o, app, Normal); n < 10 {
			t.Errorf("the app %s finds %d slots", app, n)
		}
	}
	if _, v := enter(o, "flooder", Normal); v == Admitted {
		t.Error("the flooder gets still more")
	}
	high, _ := fill(o, "flooder", High)
	critical, _ := fill(o, "flooder", Critical)
	if high == 0 || critical == 0 {
		t.Errorf("room for %d calls of high and %d of critical priority", high, critical)
	}
	if got := o.InFlight(); got > 1000 {
		t.Errorf("%d are in flight", got)
	}
}

// Of small limits, too, something is left for everybody; and none is no limit.
func TestMaxCallsSmallAndNone(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 3, 10} {
		o := NewOverload(config.Overload{MaxCalls: most})
		if n, _ := fill(o, "a", Normal); n < 1 || n > most {
			t.Errorf("of %d slots an app gets %d", most, n)
		}
	}
	o := NewOverload(config.Overload{})
	for range 50_000 {
		if _, v := enter(o, "a", Low); v != Admitted {
			t.Fatalf("without a limit: %v", v)
		}
	}
}

// Calls that are not verified have half the slots at most, all together.
func TestUnverified(t *testing.T) {
	t.Parallel()
	o := NewOverload(config.Overload{MaxCalls: 1000})
	var waiting []*Ticket
	for {
		k := new(Ticket)
		if o.Enter(k, Critical) != Admitted {
			break
		}
		waiting = append(waiting, k)
	}
	if n := len(waiting); n < 400 || n > 510 {
		t.Errorf("%d calls wait for their authentication", n)
	}
	for _, k := range waiting {
		k.Leave()
	}
	if got := o.calls.Load(); got != 0 {
		t.Errorf("%x are left", got)
	}
}

// A ticket is given back once, however far it came and however often it is given
// back.
func TestTicketsAreGivenBackOnce(t *testing.T) {
	t.Parallel()
	o := NewOverload(config.Overload{MaxCalls: 10_000})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			app := fmt.Sprint("app", i%5)
			for n := range 2000 {
				var k Ticket
				if o.Enter(&k, Priority(n%priorities)) == Admitted && n%3 != 0 {
					k.Verify(App{ID: app})
				}
				k.Leave()
				k.Leave()
			}
		})
	}
	wg.Wait()
	new(Ticket).Leave()
	if got := o.calls.Load(); got != 0 {
		t.Errorf("calls: %x", got)
	}
	for i := range o.cells {
		if n := o.cells[i].inFlight.Load(); n != 0 {
			t.Errorf("a cell has %d", n)
		}
	}
}

// plant is a model of a gateway that serves capacity calls a tick, with a queue
// before it, and of apps that make calls at their rates whatever happens.
type plant struct {
	t        *testing.T
	o        *Overload
	capacity int
	waiting  []*Ticket
	stuck    bool // full CPU and a long delay, whatever is shed
	admitted map[source]int
	refused  map[source]int
}

type source struct {
	app      string
	priority Priority
}

func newPlant(t *testing.T, capacity int) *plant {
	o := NewOverload(config.Overload{CPU: 0.95, QueueDelay: 20 * time.Millisecond})
	o.random = rand.New(rand.NewPCG(1, 2)).Uint32
	return &plant{t: t, o: o, capacity: capacity, admitted: map[source]int{}, refused: map[source]int{}}
}

// run is ticks of it with so many calls in each.
func (p *plant) run(ticks int, rates map[source]int) {
	clear(p.admitted)
	clear(p.refused)
	for range ticks {
		for s, n := range rates {
			for range n {
				if k, v := enter(p.o, s.app, s.priority); v == Admitted {
					p.admitted[s]++
					p.waiting = append(p.waiting, k)
				} else {
					p.refused[s]++
				}
			}
		}
		served := min(p.capacity, len(p.waiting))
		for _, k := range p.waiting[:served] {
			k.Leave()
		}
		p.waiting = p.waiting[served:]
		load := Load{Elapsed: Tick, CPU: float64(served) / float64(p.capacity)}
		load.QueueDelay = time.Duration(float64(len(p.waiting)) / float64(p.capacity) * float64(Tick))
		if p.stuck {
			load.CPU, load.QueueDelay = 1, time.Second
		}
		p.o.Adjust(load)
	}
}

// share is the part of a source's calls that was admitted.
func (p *plant) share(s source) float64 {
	return float64(p.admitted[s]) / max(1, float64(p.admitted[s]+p.refused[s]))
}

func (p *plant) total() (n int) {
	for _, m := range p.admitted {
		n += m
	}
	return n
}

// At three times what can be served, nearly all that can be is; who floods is
// shed, and who asks for less than a fair share is not. When the flood ends,
// nobody is.
func TestFloodIsShedFairly(t *testing.T) {
	t.Parallel()
	p := newPlant(t, 200)
	flooder, small, medium := source{"flooder", Normal}, source{"small", Normal}, source{"medium", Normal}
	rates := map[source]int{flooder: 520, small: 10, medium: 70}
	p.run(50, rates) // it gets to know the load
	p.run(300, rates)
	if got := float64(p.total()) / 300 / 200; got < 0.85 || got > 1.05 {
		t.Errorf("%.2f of the capacity is admitted", got)
	}
	if len(p.waiting) > p.capacity {
		t.Errorf("%d calls wait, for more than a tick", len(p.waiting))
	}
	for _, s := range []source{small, medium} {
		if got := p.share(s); got < 0.99 {
			t.Errorf("of %s's calls %.3f are admitted", s.app, got)
		}
	}
	if got := p.share(flooder); got < 0.15 || got > 0.35 {
		t.Errorf("of the flooder's calls %.3f are admitted", got)
	}
	if s := p.o.Status(); s.Admitted > 0.5 || s.CPU < 0.9 {
		t.Errorf("status: %+v", s)
	}

	delete(rates, flooder)
	p.run(5, rates)
	p.run(300, rates)
	for s := range rates {
		if p.refused[s] != 0 {
			t.Errorf("after the flood %d of %s's calls are shed", p.refused[s], s.app)
		}
	}
	if s := p.o.Status(); s.Admitted != 1 {
		t.Errorf("status: %+v", s)
	}
}

// Two that both want more than there is get the same, though one asks for more.
func TestEqualShares(t *testing.T) {
	t.Parallel()
	p := newPlant(t, 200)
	a, b := source{"a", Normal}, source{"b", Normal}
	rates := map[source]int{a: 600, b: 200}
	p.run(100, rates)
	p.run(300, rates)
	if ratio := float64(p.admitted[a]) / float64(p.admitted[b]); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("a gets %.2f of what b gets", ratio)
	}
}

// The lowest priority goes first, and alone as long as that is enough; the
// stronger the overload, the higher it reaches.
func TestLowestPriorityFirst(t *testing.T) {
	t.Parallel()
	low, normal, high, critical := source{"a", Low}, source{"a", Normal}, source{"b", High}, source{"c", Critical}
	for _, tc := range []struct {
		name  string
		rates map[source]int
		all   []source // of these all calls are admitted
		none  []source // of these nearly none
		some  source
	}{
		{"low is enough", map[source]int{low: 120, normal: 60, high: 40, critical: 20}, []source{normal, high, critical}, nil, low},
		{"normal, too", map[source]int{low: 120, normal: 300, high: 40, critical: 20}, []source{high, critical}, []source{low}, normal},
		{"high, too", map[source]int{low: 120, normal: 300, high: 400, critical: 20}, []source{critical}, []source{low, normal}, high},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t, 200)
			p.run(150, tc.rates)
			p.run(300, tc.rates)
			for _, s := range tc.all {
				if got := p.share(s); got < 0.97 {
					t.Errorf("of %v priority %.3f are admitted", s.priority, got)
				}
			}
			for _, s := range tc.none {
				if got := p.share(s); got > 0.1 {
					t.Errorf("of %v priority %.3f are admitted", s.priority, got)
				}
			}
			if got := p.share(tc.some); got < 0.1 || got > 0.9 {
				t.Errorf("of %v priority %.3f are admitted", tc.some.priority, got)
			}
			if got := float64(p.total()) / 300 / 200; got < 0.85 || got > 1.05 {
				t.Errorf("%.2f of the capacity is admitted", got)
			}
			p.run(5, map[source]int{low: 20})
			p.run(200, map[source]int{low: 20})
			if p.refused[low] > 400 { // as long as it takes until the higher ones are known to be gone
				t.Errorf("after the flood %d calls of low priority are shed", p.refused[low])
			}
			p.run(100, map[source]int{low: 20})
			if p.refused[low] > 0 {
				t.Errorf("long after the flood %d calls of low priority are shed", p.refused[low])
			}
		})
	}
}

// A delay that others on the machine are to blame for sheds nothing, nor do busy
// processors without a delay, nor a short delay.
func TestNotOverload(t *testing.T) {
	t.Parallel()
	for name, loads := range map[string][]Load{
		"a neighbour takes the machine": {{Tick, 0.5, time.Second}},
		"busy, and nobody waits":        {{Tick, 1, 19 * time.Millisecond}},
		"a hiccup":                      {{Tick, 1, time.Second}, {Tick, 1, time.Second}, {Tick, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := NewOverload(config.Overload{CPU: 0.95, QueueDelay: 20 * time.Millisecond})
			for i := range 300 {
				for range 50 {
					k, v := enter(o, "a", Low)
					if v != Admitted {
						t.Fatalf("%v", v)
					}
					k.Leave()
				}
				o.Adjust(loads[i%len(loads)])
			}
		})
	}
}

// Either sign alone counts where the other is switched off, and none where both
// are.
func TestSignsSwitchedOff(t *testing.T) {
	t.Parallel()
	const delay = 20 * time.Millisecond
	for _, tc := range []struct {
		cfg  config.Overload
		load Load
		shed bool
	}{
		{config.Overload{QueueDelay: delay}, Load{Tick, 0, time.Second}, true},
		{config.Overload{CPU: 0.9}, Load{Tick, 1, 0}, true},
		{config.Overload{}, Load{Tick, 1, time.Second}, false},
	} {
		o := NewOverload(tc.cfg)
		for range 50 {
			for range 50 {
				k, _ := enter(o, "a", Normal)
				k.Leave()
			}
			o.Adjust(tc.load)
		}
		if shed := o.Status().Admitted < 1; shed != tc.shed {
			t.Errorf("%+v under %+v: shed %v", tc.cfg, tc.load, shed)
		}
	}
}

// Where shedding does not help, half of what can be served still is.
func TestSomeAreAlwaysAdmitted(t *testing.T) {
	t.Parallel()
	p := newPlant(t, 200)
	a := source{"a", Normal}
	p.run(20, map[source]int{a: 200})
	p.stuck = true
	p.run(100, map[source]int{a: 600})
	p.run(200, map[source]int{a: 600})
	if got := float64(p.total()) / 200 / 200; got < 0.45 || got > 0.6 {
		t.Errorf("%.3f of what can be served is", got)
	}
}

// A tick that comes late is a long one, not one of a flood.
func TestLateTicks(t *testing.T) {
	t.Parallel()
	o := NewOverload(config.Overload{CPU: 0.95, QueueDelay: 20 * time.Millisecond})
	for range 20 {
		for range 1000 {
			k, _ := enter(o, "a", Normal)
			k.Leave()
		}
		o.Adjust(Load{Elapsed: 10 * Tick})
	}
	if got := o.admission.admitted; got < 95 || got > 105 {
		t.Errorf("1000 calls in ten ticks are %v a tick", got)
	}
}

func TestFairShare(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rates      []float64
		left, want float64
	}{
		{[]float64{1, 2, 3}, 100, 100}, // all get what they want
		{[]float64{10, 1, 10}, 11, 5},
		{[]float64{10, 10}, 0, 0},
		{[]float64{10}, -1, 0},
		{[]float64{4, 4, 4}, 6, 2},
	} {
		var demands []demand
		for _, r := range tc.rates {
			demands = append(demands, demand{rate: r, weight: 1})
		}
		if got := fairShare(demands, tc.left); got != tc.want && !(tc.want == 100 && got > 3) {
			t.Errorf("%v of %v: %v, want %v", tc.left, tc.rates, got, tc.want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Priority{"low": Low, "normal": Normal, "": Normal, "high": High, "critical": Critical, "x": Normal} {
		if got := PriorityNamed(name); got != want {
			t.Errorf("%q is %v", name, got)
		}
	}
	seen := map[string]bool{}
	for v := range Verdict(verdicts) {
		seen[v.String()] = true
	}
	if len(seen) != verdicts {
		t.Errorf("verdicts are named %v", seen)
	}
}

// BenchmarkOverload is what each call pays.
func BenchmarkOverload(b *testing.B) {
	for _, shedding := range []bool{false, true} {
		b.Run(fmt.Sprintf("shedding=%v", shedding), func(b *testing.B) {
			o := NewOverload(config.Overload{MaxCalls: 10_000, CPU: 0.95, QueueDelay: 20 * time.Millisecond})
			if shedding {
				for range 20 {
					for range 1000 {
						k, _ := enter(o, "app-0", Normal)
						k.Leave()
					}
					o.Adjust(Load{Tick, 1, time.Second})
				}
			}
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				app := "app-" + fmt.Sprint(rand.IntN(64))
				for pb.Next() {
					var t Ticket
					if o.Enter(&t, Normal) == Admitted {
						t.Verify(App{ID: app})
					}
					t.Leave()
				}
			})
		})
	}
}

// BenchmarkAdjust is what is paid ten times a second, with every cell in use.
func BenchmarkAdjust(b *testing.B) {
	o := NewOverload(config.Overload{CPU: 0.95, QueueDelay: 20 * time.Millisecond})
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range 4 * cellCount {
			k, _ := enter(o, fmt.Sprint(i), Normal)
			k.Leave()
		}
		b.StartTimer()
		o.Adjust(Load{Tick, 1, time.Second})
	}
}
