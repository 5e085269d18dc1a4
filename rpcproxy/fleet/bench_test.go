package fleet

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// BenchmarkPick is what choosing an endpoint costs a call, and telling how it
// went, in time of a processor: with -cpu 1,2, on one of them and on two that
// share what is known of the endpoints, for 64 callers for each.
func BenchmarkPick(b *testing.B) {
	for _, policy := range []string{"p2c_ewma", "round_robin", "weighted_round_robin", "least_request", "ring_hash"} {
		for _, n := range []int{3, 100} {
			f, set := benchSet(b, n, policy, config.Zone{})
			key := HashKey("app")
			b.Run(fmt.Sprintf("%s/%d", policy, n), func(b *testing.B) {
				benchPick(b, f, set, func(c *Choice) { c.Key, c.Keyed = key, true })
			})
		}
	}
	f, set := benchSet(b, 100, "p2c_ewma", config.Zone{Name: "x", SpillBelow: 0.7})
	filter := NewFilter(config.Match{"version": "v2"})
	b.Run("zone and filter", func(b *testing.B) {
		benchPick(b, f, set, func(c *Choice) { c.Filter = filter })
	})
}

func benchSet(b *testing.B, n int, policy string, zone config.Zone) (*Fleet, *Set) {
	b.Helper()
	cfg := config.DefaultBackend("bench")
	cfg.Balancer.Policy = policy
	cfg.Balancer.Zone = zone
	f, err := New(cfg, Options{})
	if err != nil {
		b.Fatal(err)
	}
	list := make([]Info, n)
	for i := range list {
		list[i] = Info{Address: fmt.Sprintf("10.0.0.%d:1", i), Metadata: map[string]string{
			"weight": fmt.Sprint(1 + i%3), "zone": string(rune('x' + i%2)), "version": fmt.Sprintf("v%d", 1+i/2%2),
		}}
	}
	return f, f.NewSet(f.Update(list))
}

func benchPick(b *testing.B, f *Fleet, set *Set, prepare func(*Choice)) {
	b.Helper()
	b.ReportAllocs()
	b.SetParallelism(64)
	start := processorTime(b)
	b.RunParallel(func(pb *testing.PB) {
		c := &Choice{}
		for pb.Next() {
			prepare(c)
			if set.Pick(c) < 0 {
				b.Error("no endpoint was chosen")
				return
			}
			f.Done(c, Success, time.Millisecond)
		}
	})
	b.ReportMetric(float64(processorTime(b)-start)/float64(b.N), "cpu-ns/op")
}

// processorTime is what the process has used. Unlike the time that has gone by,
// it does not depend on what else the machine does.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
