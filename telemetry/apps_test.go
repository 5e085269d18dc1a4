package telemetry

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rpcgate/rpcgate/config"
)

// labelled gives the calls of each app that has series, whatever their outcome.
func labelled(t *testing.T, reg *prometheus.Registry) (calls map[string]float64, series int) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	calls = map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			series++
			for _, l := range m.GetLabel() {
				if l.GetName() == "app" && f.GetName() == "rpcgate_app_calls_total" {
					calls[l.GetValue()] += m.GetCounter().GetValue()
				}
			}
		}
	}
	return calls, series
}

func TestAppsHaveTheirOutcomesAndLimits(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	a := NewApps(reg, config.Metrics{Apps: []string{"acme"}})
	a.Count("acme", AppSuccess, AppUnlimited)
	a.Count("acme", AppGateway, AppConcurrency)
	a.Count("beta", AppBackend, AppUnlimited)
	a.Count("gamma", AppCaller, AppBody)
	for series, want := range map[prometheus.Counter]float64{
		a.calls.WithLabelValues("acme", "success"):       1,
		a.calls.WithLabelValues("acme", "gateway"):       1,
		a.calls.WithLabelValues("other", "backend"):      1,
		a.calls.WithLabelValues("other", "caller"):       1,
		a.refused.WithLabelValues("acme", "concurrency"): 1,
		a.refused.WithLabelValues("other", "body"):       1,
		a.refused.WithLabelValues("acme", "body"):        0,
	} {
		if got := testutil.ToFloat64(series); got != want {
			t.Errorf("%v is %v, want %v", series.Desc(), got, want)
		}
	}
	if calls, _ := labelled(t, reg); len(calls) != 2 {
		t.Errorf("series of %v", calls)
	}
}

func TestAFloodOfAppsHasFewSeries(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	a := NewApps(reg, config.Metrics{Apps: []string{"acme"}, TopApps: 5})
	var total float64
	count := func(app string, n int) {
		for range n {
			a.Count(app, AppSuccess, AppUnlimited)
			total++
		}
	}
	for round := range 5 {
		for i := range 20_000 {
			count("flood"+strconv.Itoa(round)+"-"+strconv.Itoa(i), 1)
		}
		count("big", 1000)
		count("acme", 1)
		a.choose()
		calls, series := labelled(t, reg)
		if most := 1 + 1 + 5; len(calls) > most || series > most*(appOutcomes+appLimits-1) {
			t.Fatalf("%d series of %d apps", series, len(calls))
		}
		if _, ok := calls["big"]; !ok {
			t.Errorf("round %d: the app with the most calls has no series: %v", round, calls)
		}
		if _, ok := calls["acme"]; !ok {
			t.Errorf("round %d: the app that is named has no series: %v", round, calls)
		}
	}
	if n := a.seen.Len(); n > maxRanked+64 {
		t.Errorf("%d apps are watched", n)
	}
	for range 60 {
		a.choose()
	}
	if calls, _ := labelled(t, reg); len(calls) != 2 || a.seen.Len() != 0 {
		t.Errorf("series of %v are left, and %d apps are watched", calls, a.seen.Len())
	}
}

// Two apps of about the same size do not take turns; one that is much larger
// takes the place.
func TestSeriesStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	a := NewApps(reg, config.Metrics{TopApps: 1})
	round := func(x, y int) string {
		for range x {
			a.Count("x", AppSuccess, AppUnlimited)
		}
		for range y {
			a.Count("y", AppSuccess, AppUnlimited)
		}
		a.choose()
		var apps []string
		for app := range *a.top.Load() {
			apps = append(apps, app)
		}
		return strings.Join(apps, " ")
	}
	round(100, 90)
	for i := range 20 {
		if got := round(100-20*(i%2), 80+20*(i%2)); got != "x" {
			t.Fatalf("round %d: %s has the series", i, got)
		}
	}
	last := ""
	for range 10 {
		last = round(100, 300)
	}
	if last != "y" {
		t.Errorf("%s has the series", last)
	}
	if calls, _ := labelled(t, reg); len(calls) != 2 || calls["x"] != 0 {
		t.Errorf("series of %v", calls)
	}
}

func TestAppsAreChosenByTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewApps(nil, config.Metrics{TopApps: 1})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.Run(ctx) })
		a.Count("x", AppSuccess, AppUnlimited)
		<-time.After(rankInterval + 1)
		if (*a.top.Load())["x"] == nil {
			t.Error("the app with the most calls has no series")
		}
		stop()
		running.Wait()
	})
}

// An app that is called like the label of the others is one of them.
func TestAnAppNamedOther(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	a := NewApps(reg, config.Metrics{TopApps: 1})
	a.Count(OtherApps, AppSuccess, AppUnlimited)
	a.choose()
	a.Count(OtherApps, AppSuccess, AppUnlimited)
	for range 100 {
		a.choose()
	}
	if calls, _ := labelled(t, reg); calls[OtherApps] != 2 {
		t.Errorf("%v", calls)
	}
}

func TestCountingAnAppAllocatesNothing(t *testing.T) {
	a := NewApps(nil, config.Metrics{TopApps: 1})
	a.Count("x", AppSuccess, AppUnlimited)
	a.choose()
	if n := testing.AllocsPerRun(1000, func() { a.Count("x", AppGateway, AppRate) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkApps(b *testing.B) {
	a := NewApps(nil, config.Metrics{TopApps: 20})
	a.Count("acme", AppSuccess, AppUnlimited)
	a.choose()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a.Count("acme", AppSuccess, AppUnlimited)
		}
	})
}
