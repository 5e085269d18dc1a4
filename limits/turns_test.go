package limits

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// engaged are Turns that are waited for.
func engaged(processors int) *Turns {
	t := NewTurns(processors)
	t.Observe(time.Second)
	return t
}

// processor is a model of one that does what it has turns for, and lets the rest
// wait.
type processor struct {
	t       *testing.T
	turns   *Turns
	waiting map[*Turn]job
	did     map[Tenant]time.Duration
	order   []job
}

type job struct {
	tenant Tenant
	rank   int
	cost   time.Duration
}

func newProcessor(t *testing.T) *processor {
	return &processor{t: t, turns: engaged(1), waiting: map[*Turn]job{}, did: map[Tenant]time.Duration{}}
}

// ask has a job done, now or later.
func (p *processor) ask(j job) {
	turn := new(Turn)
	if p.turns.Take(turn, j.tenant, j.rank, j.cost) {
		p.do(turn, j)
		return
	}
	p.waiting[turn] = j
}

func (p *processor) do(turn *Turn, j job) {
	p.did[j.tenant] += j.cost
	p.order = append(p.order, j)
	p.turns.Give(turn)
}

// next does one of those that wait; false: none does.
func (p *processor) next() bool {
	for turn, j := range p.waiting {
		select {
		case <-turn.Ready():
			delete(p.waiting, turn)
			p.do(turn, j)
			return true
		default:
		}
	}
	return false
}

// hold has the processor busy until it is given back.
func (p *processor) hold(tenant Tenant) *Turn {
	turn := new(Turn)
	if !p.turns.Take(turn, tenant, Normal.Rank(), time.Millisecond) {
		p.t.Fatal("the processor is busy already")
	}
	return turn
}

func TestTurnsGoByWeight(t *testing.T) {
	t.Parallel()
	p := newProcessor(t)
	light, heavy := Tenant{cell: 1}, Tenant{cell: 2, extra: 2}
	busy := p.hold(Tenant{cell: 9})
	for range 400 { // ten times dearer, and a third of the weight
		p.ask(job{light, Normal.Rank(), 10 * time.Millisecond})
		for range 10 {
			p.ask(job{heavy, Normal.Rank(), time.Millisecond})
		}
	}
	clear(p.did)
	p.turns.Give(busy)
	for range 1500 {
		if !p.next() {
			t.Fatal("nobody is next, though many wait")
		}
	}
	if ratio := float64(p.did[heavy]) / float64(p.did[light]); ratio < 2.9 || ratio > 3.1 {
		t.Errorf("of three times the weight, and %.2f times the time", ratio)
	}
}

// Who asks for less than its share does not wait for who asks for more.
func TestTurnsWithinShareDoNotWait(t *testing.T) {
	t.Parallel()
	p := newProcessor(t)
	flooder, good := Tenant{cell: 1}, Tenant{cell: 2}
	waited := 0
	running := p.hold(flooder)
	for i := range 2000 {
		for range 5 {
			turn := new(Turn)
			if p.turns.Take(turn, flooder, Normal.Rank(), time.Millisecond) {
				t.Fatal("the flooder goes on, though the processor is busy")
			}
			p.waiting[turn] = job{}
		}
		if i%3 == 0 {
			turn := new(Turn)
			if !p.turns.Take(turn, good, Normal.Rank(), time.Millisecond) {
				waited++
			}
			p.turns.Give(turn)
		}
		p.turns.Give(running)
		running = p.granted()
	}
	if waited > 0 {
		t.Errorf("%d of its calls waited", waited)
	}
	if p.turns.held != 5*2000-2000 {
		t.Errorf("%d calls of the flooder wait", p.turns.held)
	}
}

// granted is the one of those that wait whose turn it is.
func (p *processor) granted() *Turn {
	for turn := range p.waiting {
		select {
		case <-turn.Ready():
			delete(p.waiting, turn)
			return turn
		default:
		}
	}
	p.t.Fatal("it is nobody's turn, though many wait")
	return nil
}

func TestTurnsOfOneTenantGoByRank(t *testing.T) {
	t.Parallel()
	p := newProcessor(t)
	x := Tenant{cell: 1}
	busy := p.hold(x)
	for _, rank := range []int{Low.Rank(), RankRefusal, Critical.Rank(), RankAnswer, Low.Rank()} {
		p.ask(job{x, rank, time.Duration(len(p.waiting) + 1)})
	}
	p.turns.Give(busy)
	for p.next() {
	}
	want := []job{{x, RankAnswer, 4}, {x, Critical.Rank(), 3}, {x, Low.Rank(), 1}, {x, Low.Rank(), 5}, {x, RankRefusal, 2}}
	if len(p.order) != len(want) {
		t.Fatalf("done: %v", p.order)
	}
	for i := range want {
		if p.order[i] != want[i] {
			t.Errorf("the %dth was %v, not %v", i, p.order[i], want[i])
		}
	}
}

// With processors to spare nothing waits; that is noticed at once when they are
// short, and after a while when they are not any more.
func TestTurnsEngage(t *testing.T) {
	t.Parallel()
	turns := NewTurns(1)
	for range 100 {
		turns.Observe(shortFrom - 1)
		if turns.Engaged() || !turns.Take(new(Turn), Tenant{}, RankRefusal, time.Hour) {
			t.Fatal("something waits, though processors are not short")
		}
	}
	turns.Observe(shortFrom)
	if !turns.Engaged() {
		t.Fatal("nothing waits, though processors are short")
	}
	for range ampleFrom {
		turns.Observe(0)
	}
	if turns.Engaged() {
		t.Error("things still wait")
	}
}

// A source of work pauses while enough of its tenant's waits, and goes on when it
// does not; another's does not pause.
func TestPauses(t *testing.T) {
	t.Parallel()
	p := newProcessor(t)
	flooder := Tenant{cell: 1}
	busy := p.hold(Tenant{cell: 2})
	var source Turn
	for range enough {
		if p.turns.Pause(&source, flooder) {
			t.Fatal("it pauses before enough waits")
		}
		p.ask(job{flooder, Normal.Rank(), time.Millisecond})
	}
	p.ask(job{flooder, Normal.Rank(), time.Millisecond}) // the first one had its turn at once
	if !p.turns.Pause(&source, flooder) {
		t.Fatal("it does not pause")
	}
	if p.turns.Pause(new(Turn), Tenant{cell: 2}) {
		t.Error("another's pauses, too")
	}
	select {
	case <-source.Ready():
		t.Fatal("it goes on, and enough still waits")
	default:
	}
	p.turns.Give(busy)
	for range 2 {
		p.next()
	}
	select {
	case <-source.Ready():
	default:
		t.Error("it does not go on")
	}
	p.turns.Give(&source)

	// Also when nothing more of the tenant's comes to its turn.
	for p.next() {
	}
	for range enough + 1 {
		p.ask(job{flooder, RankRefusal, time.Hour})
	}
	_ = p.turns.Pause(&source, flooder)
	for turn := range p.waiting {
		p.turns.Give(turn)
	}
	p.turns.Observe(0)
	if len(p.turns.paused) != 0 {
		t.Error("a source pauses, and nothing waits")
	}
	p.turns.Give(&source)
}

// However many sources pause when there is no want of processors any more, all go
// on: nothing looks after them later.
func TestNoSourcePausesForGood(t *testing.T) {
	t.Parallel()
	turns := engaged(1)
	flooder := Tenant{cell: 1}
	var work [enough + 1]Turn // one of them has its turn at once
	for i := range work {
		_ = turns.Take(&work[i], flooder, Normal.Rank(), time.Millisecond)
	}
	sources := make([]Turn, 20*enough)
	for i := range sources {
		if !turns.Pause(&sources[i], flooder) {
			t.Fatal("it does not pause")
		}
	}
	for i := range work {
		turns.Give(&work[i])
	}
	for range 1000 {
		turns.Observe(0)
	}
	if turns.Engaged() {
		t.Error("things still wait")
	}
	paused := 0
	for i := range sources {
		select {
		case <-sources[i].Ready():
		default:
			paused++
		}
		turns.Give(&sources[i])
	}
	if paused > 0 {
		t.Errorf("%d of %d sources still pause", paused, len(sources))
	}
}

// However turns end, or are given up, the next one's comes, and none is lost.
func TestTurnsUnderContention(t *testing.T) {
	t.Parallel()
	turns := engaged(2)
	var all sync.WaitGroup
	for i := range uint16(16) {
		all.Go(func() {
			var turn Turn
			for n := range 2000 {
				tenant := Tenant{cell: i % 5, extra: i % 3}
				if n%7 == 0 && turns.Pause(&turn, tenant) {
					turns.Give(&turn)
				}
				if !turns.Take(&turn, tenant, rand.IntN(ranks), time.Millisecond) && n%3 != 0 {
					<-turn.Ready()
				}
				turns.Give(&turn)
				turns.Give(&turn)
			}
		})
	}
	all.Wait()
	if turns.running != 0 || turns.held != 0 || len(turns.behind) != 0 || len(turns.paused) != 0 {
		t.Errorf("left: %d running, %d held, %d behind, %d paused", turns.running, turns.held, len(turns.behind), len(turns.paused))
	}
}

// BenchmarkTurns is what a turn costs: while there is no want of processors, and
// while there is.
func BenchmarkTurns(b *testing.B) {
	for name, turns := range map[string]*Turns{"ample": NewTurns(2), "short": engaged(2)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				var turn Turn
				tenant := Tenant{cell: uint16(rand.IntN(64))}
				for pb.Next() {
					if !turns.Take(&turn, tenant, Normal.Rank(), 100*time.Microsecond) {
						<-turn.Ready()
					}
					turns.Give(&turn)
				}
			})
		})
	}
}
