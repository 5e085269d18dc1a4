package limits

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// bucket is a store of one rate, or of one quota: what Redis does.
type bucket struct {
	spec  Spec
	tat   float64 // nanoseconds, of a rate
	used  int64   // of a quota
	asks  int
	broke bool
}

func (b *bucket) ask(now time.Duration, q Question) (Answer, bool) {
	b.asks++
	if b.broke {
		return Answer{}, false
	}
	want := q.Pay + q.Buy
	burst := float64(b.spec.Burst) * Unit
	if b.spec.Per == 0 {
		give := q.Buy
		if give > 0 {
			give = max(0, min(give, int64(burst)-b.used-q.Pay))
		}
		b.used += q.Pay + give
		return Answer{Given: q.Pay + give, Left: burst - float64(b.used)}, true
	}
	perUnit := float64(b.spec.Per) / float64(b.spec.Calls) / Unit
	t := float64(now)
	b.tat = max(b.tat, t)
	left := burst - (b.tat-t)/perUnit
	if left < 1 {
		return Answer{Left: left}, true
	}
	cost := min(float64(want), left)
	b.tat += cost * perUnit
	return Answer{Given: int64(cost), Left: left - cost}, true
}

// world is gateways before a store, with a clock of its own.
type world struct {
	now      time.Duration
	store    *bucket
	latency  time.Duration
	gateways []*gatewayOf
	random   func() float64
}

type gatewayOf struct {
	*Allowance

	due    time.Duration // when the question is to be asked; 0: none
	atOnce bool
	answer func()
	at     time.Duration
}

func newWorld(spec Spec, gateways int, o AllowanceOptions) *world {
	w := &world{now: time.Second, store: &bucket{spec: spec}, latency: time.Millisecond, random: rand.New(rand.NewPCG(1, 2)).Float64}
	for range gateways {
		w.join(gateways, o)
	}
	return w
}

func (w *world) join(gateways int, o AllowanceOptions) *gatewayOf {
	g := &gatewayOf{}
	o.Ask = func(after time.Duration) {
		if after <= 0 {
			g.atOnce = true
			return
		}
		g.due = w.now + after
	}
	if o.Period == nil {
		o.Period = func(time.Duration) (string, time.Duration) { return "today", 24 * time.Hour }
	}
	o.Random = w.random
	g.Allowance = NewAllowance(w.store.spec, gateways, w.now, o)
	w.gateways = append(w.gateways, g)
	return g
}

// step lets time pass, and questions and answers with it.
func (w *world) step(dt time.Duration) {
	w.now += dt
	for _, g := range w.gateways {
		if g.answer != nil && w.now >= g.at {
			answer := g.answer
			g.answer = nil
			answer()
		}
		if g.due != 0 && w.now >= g.due {
			g.due = 0
			g.atOnce = g.atOnce || g.Due(w.now)
		}
		if g.atOnce && g.answer == nil {
			g.atOnce = false
			q := g.Begin(w.now)
			r, ok := w.store.ask(w.now, q)
			g.at = w.now + w.latency
			g.answer = func() {
				if !ok {
					g.Failed(w.now)
					return
				}
				g.Answered(w.now, len(w.gateways), q, r)
			}
		}
	}
}

// offer has calls come for a while, at a rate for each gateway, and tells how many
// went on at each.
func (w *world) offer(d time.Duration, perSecond func(at time.Duration) []float64) (granted, refused []int) {
	const dt = 100 * time.Microsecond
	due := make([]float64, len(w.gateways))
	granted, refused = make([]int, len(w.gateways)), make([]int, len(w.gateways))
	for end := w.now + d; w.now < end; {
		w.step(dt)
		for i, rate := range perSecond(w.now) {
			for due[i] += rate * dt.Seconds(); due[i] >= 1; due[i]-- {
				if w.gateways[i].Take(w.now) == Granted {
					granted[i]++
				} else {
					refused[i]++
				}
			}
		}
	}
	return granted, refused
}

func sum(all []int) (n int) {
	for _, v := range all {
		n += v
	}
	return n
}

func always(rates ...float64) func(time.Duration) []float64 {
	return func(time.Duration) []float64 { return rates }
}

// However what comes is spread over three gateways, together they let through what
// the limit has, and seldom ask.
func TestGatewaysKeepOneRate(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	for name, tc := range map[string]struct {
		rates func(time.Duration) []float64
		want  float64
	}{
		"below":                {always(3000, 3000, 3000), 9000},
		"below, uneven":        {always(8500, 300, 0), 8800},
		"just below, at one":   {always(9800, 0, 0), 9800},
		"1.5 times":            {always(5000, 5000, 5000), limit},
		"3 times":              {always(10_000, 10_000, 10_000), limit},
		"1.5 times, uneven":    {always(14_000, 900, 100), limit},
		"3 times, very uneven": {always(29_800, 150, 50), limit},
		"3 times, at one":      {always(30_000, 0, 0), limit},
		"30 times":             {always(100_000, 100_000, 100_000), limit},
		"3 times, changing sides": {func(at time.Duration) []float64 {
			all := make([]float64, 3)
			all[int(at/(300*time.Millisecond))%3] = 30_000
			return all
		}, limit},
		"1.5 times, changing sides": {func(at time.Duration) []float64 {
			all := []float64{500, 500, 500}
			all[int(at/(700*time.Millisecond))%3] = 14_000
			return all
		}, limit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(Spec{Calls: limit, Burst: limit, Per: time.Second}, 3, AllowanceOptions{})
			// What may come at once is used up first.
			w.offer(3*time.Second, tc.rates)
			w.store.asks = 0
			const d = 10
			granted, refused := w.offer(d*time.Second, tc.rates)
			got := float64(sum(granted)) / d
			t.Logf("%.0f/s of %d, %v; %d questions/s for %d calls", got, limit, granted, w.store.asks/d, (sum(granted)+sum(refused))/d)
			if math.Abs(got-tc.want) > tc.want/20 {
				t.Errorf("%.0f calls/s went on, want %.0f", got, tc.want)
			}
			if perAsk := (sum(granted) + sum(refused)) / w.store.asks; perAsk < 100 {
				t.Errorf("a question for each %d calls, want fewer", perAsk)
			}
		})
	}
}
