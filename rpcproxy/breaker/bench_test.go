package breaker_test

import (
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// cpu reports the processor time of this process per call, which other load on
// the machine disturbs less than it does the time on the clock.
func cpu(b *testing.B) (report func()) {
	now := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b.ReportAllocs()
	b.ResetTimer()
	start := now()
	return func() { b.ReportMetric(float64(now()-start)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkAllow is Allow and Done, by one goroutine and by 64: run it with
// -cpu 2. What 64 cost per call in processor time, over what one does, is what
// processors cost each other.
func BenchmarkAllow(b *testing.B) {
	scoped := func(c config.Breaker) config.Breaker { c.Scope = "app"; return c }
	for _, bc := range []struct {
		name string
		cfg  config.Breaker
		apps int
		o    breaker.Outcome
	}{
		{"adaptive/closed", adaptiveConfig(), 1, breaker.Success},
		{"adaptive/open", adaptiveConfig(), 1, breaker.Failure},
		{"adaptive/one app", scoped(adaptiveConfig()), 1, breaker.Success},
		{"adaptive/500 apps", scoped(adaptiveConfig()), 500, breaker.Success},
		{"threshold/closed", thresholdConfig(nil), 1, breaker.Success},
		{"threshold/open", thresholdConfig(nil), 1, breaker.Failure},
		{"threshold/500 apps", scoped(thresholdConfig(nil)), 500, breaker.Success},
	} {
		apps := make([]string, bc.apps)
		for i := range apps {
			apps[i] = "app-" + strconv.Itoa(i)
		}
		one := func(g *breaker.Group, i int) {
			if pass, err := g.Allow(apps[i%len(apps)]); err == nil {
				pass.Done(bc.o, "SICK")
			}
		}
		b.Run(bc.name+"/1 goroutine", func(b *testing.B) {
			g := mustNew(b, bc.cfg)
			report := cpu(b)
			for i := range b.N {
				one(g, i)
			}
			report()
		})
		b.Run(bc.name+"/64 goroutines", func(b *testing.B) {
			g := mustNew(b, bc.cfg)
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			report := cpu(b)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					one(g, i)
				}
			})
			report()
		})
	}
}
