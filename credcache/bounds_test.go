package credcache

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A flood of made-up keys pushes out no good entry, and stays within its bound.
func TestFlood(t *testing.T) {
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			const good, negative = 1000, 100
			c := mustNew(t, Options{Entries: 2 * good, NegativeEntries: negative, shards: shards}, func(_ context.Context, k id) (int, error) {
				if k.app == "flood" {
					return 0, ErrNotFound
				}
				return 1, nil
			})
			for i := range good {
				_, _ = c.Get(t.Context(), id{"acme", fmt.Sprint(i)})
			}
			for i := range 10_000 {
				_, _ = c.Get(t.Context(), id{"flood", fmt.Sprint(i)})
			}
			if g, n := c.Len(); g != good || n != negative {
				t.Errorf("Len = %d, %d; want %d, %d", g, n, good, negative)
			}
			for i := range 10 * good {
				_, _ = c.Get(t.Context(), id{"acme", fmt.Sprint(i)})
			}
			if g, _ := c.Len(); g != 2*good || len(c.Keys()) != g {
				t.Errorf("%d entries, %d keys; want %d", g, len(c.Keys()), 2*good)
			}
		})
	}
}

func TestHitAllocatesNothing(t *testing.T) {
	for _, shards := range []int{1, 8} {
		c := mustNew(t, Options{shards: shards}, func(context.Context, id) (*int, error) { return new(int), nil })
		ctx := t.Context()
		_, _ = c.Get(ctx, alice)
		if n := testing.AllocsPerRun(1000, func() { _, _ = c.Get(ctx, alice) }); n != 0 {
			t.Errorf("with %d shards a hit allocates %v times", shards, n)
		}
	}
}

func TestOptions(t *testing.T) {
	load := func(context.Context, string) (int, error) { return 0, nil }
	for _, tc := range []struct {
		o    Options
		want string // in the error; "" for none
	}{
		{Options{}, ""},
		{Options{Entries: 1, NegativeEntries: 1, MaxLoads: 1, TTL: 1, NegativeTTL: 1, LoadTimeout: 1}, ""},
		{Options{Entries: -1}, "Entries"},
		{Options{NegativeEntries: -1}, "NegativeEntries"},
		{Options{MaxLoads: -1}, "MaxLoads"},
		{Options{TTL: -time.Second}, "TTL"},
		{Options{Stale: -time.Second}, "Stale"},
		{Options{LoadTimeout: -time.Second}, "LoadTimeout"},
	} {
		_, err := New(tc.o, load)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("New(%+v): %v, want %q", tc.o, err, tc.want)
		}
	}
	if _, err := New[string, int](Options{}, nil); err == nil {
		t.Error("no loader, and no error")
	}
}

func TestShardsFor(t *testing.T) {
	for _, tc := range []struct{ entries, procs, want int }{
		{65536, 1, 1}, {65536, 2, 1}, {65536, 4, 16}, {65536, 64, 64}, {100, 64, 1}, {8192, 64, 8}, {2048, 4, 2},
	} {
		if got := shardsFor(tc.entries, tc.procs); got != tc.want {
			t.Errorf("shardsFor(%d, %d) = %d, want %d", tc.entries, tc.procs, got, tc.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	c := mustNew(t, Options{Name: "test", Entries: 1, Registerer: reg}, func(_ context.Context, k string) (int, error) {
		switch k {
		case "none":
			return 0, ErrNotFound
		case "down":
			return 0, errRedis
		}
		return 1, nil
	})
	for _, k := range []string{"a", "a", "a", "b", "none", "none", "down", "down"} {
		_, _ = c.Get(t.Context(), k)
	}
	c.Invalidate("b")
	got := map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "rpcgate_cache_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"requests_total test hit": 2, "requests_total test miss": 4, "requests_total test stale": 0,
		"requests_total test negative": 1, "requests_total test failing": 1,
		"loads_total test ok": 2, "loads_total test not_found": 1, "loads_total test failed": 1,
		"loads_total test timeout": 0, "loads_total test panic": 0, "loads_total test busy": 0,
		"loads_in_flight test": 0, "invalidations_total test": 1,
		"evictions_total test entry": 1, "evictions_total test negative": 0,
		"entries test entry": 0, "entries test negative": 2,
	}
	if !maps.Equal(got, want) {
		t.Errorf("metrics are\n%v, want\n%v", got, want)
	}
	if _, err := New(Options{Name: "test", Registerer: reg}, func(context.Context, string) (int, error) { return 0, nil }); err == nil {
		t.Error("two caches of one name share a registry")
	}
}
