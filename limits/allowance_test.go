package limits

import (
	"sync"
	"testing"
	"time"
)

// settle lets questions that are under way be answered.
func (w *world) settle() {
	for range 2000 {
		w.step(100 * time.Microsecond)
	}
}

// A small limit is exact where one gateway has it alone, from the first call, and
// whatever the rhythm.
func TestSmallLimitIsExact(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec  Spec
		every time.Duration
		first int // of those that come at the beginning
		then  float64
	}{
		"5 a minute":           {Spec{5, 5, time.Minute}, 100 * time.Millisecond, 5, 5},
		"5 a minute, at once":  {Spec{5, 5, time.Minute}, 0, 5, 5},
		"1 a second":           {Spec{1, 1, time.Second}, 10 * time.Millisecond, 1, 60},
		"100/s, one at a time": {Spec{100, 1, time.Second}, time.Millisecond, 1, 6000},
		"20/s, 3 at a time":    {Spec{20, 3, time.Second}, 7 * time.Millisecond, 3, 1200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(tc.spec, 1, AllowanceOptions{})
			g := w.gateways[0]
			got := 0
			for range tc.first + 5 { // at once
				if g.Take(w.now) == Granted {
					got++
				}
			}
			if got != tc.first {
				t.Errorf("%d calls went on at first, want %d", got, tc.first)
			}
			got = 0
			const d = 10 * time.Minute
			for end, next := w.now+d, w.now; w.now < end; {
				w.step(time.Millisecond)
				if tc.every > 0 && w.now < next {
					continue
				}
				next = w.now + tc.every
				if g.Take(w.now) == Granted {
					got++
				}
			}
			if want := int(tc.then * d.Minutes()); got < want-want/50-1 || got > want {
				t.Errorf("%d calls went on in %v, want %d", got, d, want)
			}
		})
	}
}

// Several gateways let through what a small limit has, and at most one call each
// above it at any time.
func TestSmallLimitOfSeveralGateways(t *testing.T) {
	t.Parallel()
	for _, gateways := range []int{2, 3, 5} {
		spec := Spec{Calls: 5, Burst: 5, Per: time.Minute}
		w := newWorld(spec, gateways, AllowanceOptions{})
		got, start := 0, w.now
		for i := 0; w.now < start+10*time.Minute; i++ {
			w.step(time.Millisecond)
			if i%7 == 0 && w.gateways[i/7%gateways].Take(w.now) == Granted {
				got++
			}
			most := 5 + (w.now-start).Minutes()*5 + float64(gateways)
			if float64(got) > most {
				t.Fatalf("%d gateways: %d calls in %v", gateways, got, w.now-start)
			}
		}
		if got < 5+50-gateways {
			t.Errorf("%d gateways: %d calls in ten minutes, want 55 or nearly", gateways, got)
		}
	}
}

// Calls one after another see what is left fall to nothing by one at a time, also
// where it is bought in batches, and one gateway of three serves them all.
func TestRemainingFallsSteadily(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec     Spec
		gateways int
	}{
		"rate, alone":   {Spec{100, 100, time.Hour}, 1},
		"rate of three": {Spec{100, 100, time.Hour}, 3},
		"small":         {Spec{5, 5, time.Hour}, 3},
		"quota, alone":  {Spec{Calls: 500, Burst: 500}, 1},
		"quota":         {Spec{Calls: 500, Burst: 500}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(tc.spec, tc.gateways, AllowanceOptions{})
			g := w.gateways[0]
			for want := tc.spec.Burst - 1; want >= 0; want-- {
				for range 20 {
					w.step(100 * time.Microsecond)
				}
				if d := g.Take(w.now); d != Granted {
					t.Fatalf("with %d left a call is %v", want+1, d)
				}
				if got := g.View(w.now).Remaining; got != want {
					t.Fatalf("%d left, want %d", got, want)
				}
			}
			w.settle()
			if d := g.Take(w.now); d != Exhausted {
				t.Errorf("with nothing left a call is %v", d)
			}
		})
	}
}

// A limit that is used up costs no questions, however many calls it refuses.
func TestExhaustedAsksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(Spec{Calls: 5, Burst: 5, Per: time.Hour}, 3, AllowanceOptions{})
	for range 100 {
		w.gateways[0].Take(w.now)
		w.settle()
	}
	for _, g := range w.gateways {
		g.Take(w.now) // which nothing has been heard by, but of the first
	}
	w.settle()
	w.store.asks = 0
	for range 10_000 {
		w.step(100 * time.Microsecond)
		for _, g := range w.gateways {
			if g.Take(w.now) == Granted {
				t.Fatal("a call went on")
			}
		}
	}
	if w.store.asks > 3 {
		t.Errorf("%d questions in a second for 30,000 refused calls", w.store.asks)
	}
	if wait := w.gateways[0].RetryAfter(w.now); wait < 11*time.Minute || wait > 12*time.Minute {
		t.Errorf("more is said to be there in %v, want in nearly 12m", wait)
	}
}

// While the store is down the configured choice holds; when it is back, the limit
// is shared again.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	spec := Spec{Calls: 3000, Burst: 3000, Per: time.Second}
	for name, tc := range map[string]struct {
		down     WhenDown
		perSec   float64
		decision Decision
	}{
		"local":  {DownLocal, 3000, Exhausted},
		"open":   {DownOpen, 0, Uncounted},
		"closed": {DownClosed, 0, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(spec, 3, AllowanceOptions{WhenDown: tc.down})
			load := always(3000, 3000, 3000)
			w.offer(3*time.Second, load)
			w.store.broke = true
			w.offer(time.Second, load) // until it is noticed, and what was bought is used up
			granted, _ := w.offer(5*time.Second, load)
			if got := float64(sum(granted)) / 5; got < tc.perSec*.95 || got > tc.perSec*1.05 {
				t.Errorf("%.0f calls/s are granted without the store, want %.0f", got, tc.perSec)
			}
			w.step(time.Microsecond)
			for range 3000 { // more than there is
				if d := w.gateways[0].Take(w.now); d != Granted && d != tc.decision {
					t.Fatalf("a call is %v, want %v", d, tc.decision)
				}
			}
			if d := w.gateways[0].Take(w.now); d != tc.decision {
				t.Fatalf("a call is %v, want %v", d, tc.decision)
			}
			w.store.broke = false
			w.offer(2*time.Second, load)
			granted, _ = w.offer(5*time.Second, load)
			if got := float64(sum(granted)) / 5; got < 2850 || got > 3150 {
				t.Errorf("%.0f calls/s are granted with the store back, want 3000", got)
			}
		})
	}
}

// A store that does not answer is down before it says so.
func TestStoreHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(Spec{Calls: 100, Burst: 100, Per: time.Second}, 1, AllowanceOptions{WhenDown: DownClosed})
	w.latency = time.Hour
	g := w.gateways[0]
	if d := g.Take(w.now); d != Granted {
		t.Fatalf("the first call is %v", d)
	}
	w.step(patience + time.Millisecond)
	if d := g.Take(w.now); d != Unknown {
		t.Errorf("with a question unanswered a call is %v", d)
	}
}

// A quota is spent once, however it is spread; the next day it is there again, and
// what was owed is paid for the day it was of.
func TestQuota(t *testing.T) {
	t.Parallel()
	day := func(now time.Duration) (string, time.Duration) {
		n := int(now / (24 * time.Hour))
		return time.Time{}.AddDate(0, 0, n).Format("0102"), time.Duration(n+1) * 24 * time.Hour
	}
	w := newWorld(Spec{Calls: 10_000, Burst: 10_000}, 3, AllowanceOptions{Period: day})
	granted, _ := w.offer(10*time.Second, always(2000, 300, 1))
	if got := sum(granted); got < 9950 || got > 10_050 {
		t.Errorf("%d calls of a quota of 10,000", got)
	}
	w.settle()
	if w.store.used < 9_900*Unit || w.store.used > 10_050*Unit {
		t.Errorf("%d are counted", w.store.used/Unit)
	}
	w.now = 24*time.Hour - time.Millisecond
	g := w.gateways[0]
	if d := g.Take(w.now); d != Exhausted {
		t.Errorf("before midnight a call is %v", d)
	}
	if wait := g.RetryAfter(w.now); wait > time.Millisecond {
		t.Errorf("before midnight there is more in %v", wait)
	}
	w.now = 24 * time.Hour
	if d := g.Take(w.now); d != Granted {
		t.Errorf("after midnight a call is %v", d)
	}
}

// Which day it is the clock says, also one that was set: a quota begins anew soon
// after, and not when the day would have ended by the clock as it was.
func TestQuotaGoesByTheClock(t *testing.T) {
	t.Parallel()
	today, ends := "30", 24*time.Hour
	w := newWorld(Spec{Calls: 10, Burst: 10}, 1, AllowanceOptions{Period: func(time.Duration) (string, time.Duration) { return today, ends }})
	g := w.gateways[0]
	use := func() (n int) {
		for end := w.now + forgetful + time.Second; w.now < end; w.step(10 * time.Millisecond) {
			if g.Take(w.now) == Granted {
				n++
			}
		}
		return n
	}
	if n := use(); n != 10 {
		t.Fatalf("%d calls went on, want 10", n)
	}
	ends += time.Hour // a little back: it is the same day
	if n := use(); n != 0 {
		t.Errorf("%d calls went on, though it is the same day", n)
	}
	ends = w.now + 10*time.Millisecond // the clock goes slower than the one that the end was told by
	use()
	ends += 24 * time.Hour
	if n := use(); n != 0 {
		t.Errorf("%d calls went on by the end of the day, though it has not ended", n)
	}
	today, w.store.used = "1", 0
	if n := use(); n != 10 {
		t.Errorf("%d calls went on after the clock was set to the next day, want 10", n)
	}
}

// A quota that changes while a question is under way, which then fails, pays what
// was taken once.
func TestQuotaPaysOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(Spec{Calls: 1000, Burst: 1000}, 1, AllowanceOptions{})
	g := w.gateways[0]
	for range 10 {
		g.Take(w.now)
	}
	first := g.Begin(w.now)
	g.Failed(w.now)
	g.Change(Spec{Calls: 20, Burst: 20}, 1, w.now)
	for range 5 {
		g.Take(w.now)
	}
	w.now += time.Second
	if again := g.Begin(w.now); again != first {
		t.Fatalf("%+v is asked again as %+v", first, again)
	}
	g.Answered(w.now, 1, first, Answer{Given: first.Pay, Left: float64(1000*Unit - first.Pay)})
	next := g.Begin(w.now)
	if all := first.Pay + next.Pay; all != 15*Unit {
		t.Errorf("%d units are paid for 15 calls", all)
	}
	if left := g.View(w.now).Remaining; left != 5 {
		t.Errorf("%d are left of 20, want 5", left)
	}
}

// What was bought and is not used goes back, and is not there any more.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	w := newWorld(Spec{Calls: 1000, Burst: 1000, Per: time.Second}, 3, AllowanceOptions{})
	w.offer(3*time.Second, always(500, 0, 0))
	g := w.gateways[0]
	stock := g.Stock()
	if stock < Unit {
		t.Fatal("nothing was bought ahead")
	}
	q := g.GiveBack(w.now, true)
	if q.Pay != 0 || q.Buy > 0 || -q.Buy > stock {
		t.Errorf("of %d, %+v is given back", stock, q)
	}
	if g.Stock() != 0 || !g.Retired() {
		t.Error("it is still there")
	}
}

// Other numbers hold from the next call on.
func TestChange(t *testing.T) {
	t.Parallel()
	w := newWorld(Spec{Calls: 100, Burst: 100, Per: time.Hour}, 1, AllowanceOptions{})
	g := w.gateways[0]
	take := func(n int) (granted int) {
		for range n {
			if g.Take(w.now) == Granted {
				granted++
			}
		}
		return granted
	}
	take(50)
	w.settle()
	change := func(spec Spec) {
		w.store.spec, w.store.tat = spec, 0 // another rate is another bucket
		g.Change(spec, 1, w.now)
	}
	change(Spec{Calls: 10, Burst: 10, Per: time.Hour})
	if n := take(20); n != 10 {
		t.Errorf("%d calls of 10 an hour", n)
	}
	w.settle()
	change(Spec{Calls: 1000, Burst: 1000, Per: time.Hour})
	if n := take(400); n != 400 {
		t.Errorf("%d calls went on after the limit was raised, want 400", n)
	}
}

// An undone call is there for another.
func TestUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(Spec{Calls: 1, Burst: 1, Per: time.Hour}, 1, AllowanceOptions{})
	g := w.gateways[0]
	for range 10 {
		if d := g.Take(w.now); d != Granted {
			t.Fatalf("a call is %v", d)
		}
		g.Undo()
	}
}

// Calls at the same time take no more than there is.
func TestTakeAtOnce(t *testing.T) {
	t.Parallel()
	a := NewAllowance(Spec{Calls: 1000, Burst: 1000, Per: time.Hour}, 1, 1, AllowanceOptions{Ask: func(time.Duration) {}})
	var tasks sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for range 8 {
		tasks.Go(func() {
			n := 0
			for range 500 {
				if a.May(1) == Granted && a.Take(1) == Granted {
					n++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			granted += n
		})
	}
	tasks.Wait()
	if granted != 1000 {
		t.Errorf("%d calls went on, want 1000", granted)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	a := NewAllowance(Spec{Calls: 1e9, Burst: 1e9, Per: time.Second}, 3, 1, AllowanceOptions{Ask: func(time.Duration) {}})
	now := time.Duration(1)
	if n := testing.AllocsPerRun(1000, func() {
		now += 100
		a.May(now)
		a.Take(now)
	}); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

func BenchmarkTake(b *testing.B) {
	a := NewAllowance(Spec{Calls: 1e9, Burst: 1e9, Per: time.Second}, 3, 1, AllowanceOptions{Ask: func(time.Duration) {}})
	b.RunParallel(func(pb *testing.PB) {
		start := time.Now()
		for pb.Next() {
			now := time.Since(start)
			a.May(now)
			a.Take(now)
		}
	})
}
