package credcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// The shards are the only lock of the hit path; each parallel benchmark runs
// with one and with several, for what sharding buys: compare with -cpu 1,2,8.
func benchmarkShards(b *testing.B, f func(*testing.B, int)) {
	b.Helper()
	for _, shards := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) { f(b, shards) })
	}
}

func benchKeys(n int) []id {
	keys := make([]id, n)
	for i := range keys {
		keys[i] = id{fmt.Sprintf("app-%d", i%100), fmt.Sprintf("%016d", i)}
	}
	return keys
}

func answer(context.Context, id) (*int, error) { return nil, nil }

func BenchmarkHit(b *testing.B) {
	benchmarkShards(b, func(b *testing.B, shards int) {
		b.Helper()
		keys := benchKeys(10_000)
		c := mustNew(b, Options{shards: shards}, answer)
		ctx := b.Context()
		for _, k := range keys {
			_, _ = c.Get(ctx, k)
		}
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for i := rand.N(len(keys)); pb.Next(); i++ {
				if _, ok := c.Fresh(keys[i%len(keys)]); !ok {
					b.Error("a miss")
				}
			}
		})
	})
}

func BenchmarkMiss(b *testing.B) {
	c := mustNew(b, Options{}, answer)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		c.Invalidate(alice)
		_, _ = c.Get(ctx, alice)
	}
}

func BenchmarkNegativeHit(b *testing.B) {
	c := mustNew(b, Options{NegativeTTL: time.Hour}, func(context.Context, id) (*int, error) { return nil, ErrNotFound })
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Get(ctx, alice)
	}
}

// A thousand goroutines ask for one key at once; one operation is one Get.
func Benchmark1000GoroutinesOneKey(b *testing.B) {
	benchmarkShards(b, func(b *testing.B, shards int) {
		b.Helper()
		c := mustNew(b, Options{shards: shards}, answer)
		ctx := b.Context()
		b.ReportAllocs()
		b.ResetTimer()
		var wg sync.WaitGroup
		for g := range 1000 {
			wg.Go(func() {
				for range b.N/1000 + min(1, max(0, b.N%1000-g)) {
					_, _ = c.Get(ctx, alice)
				}
			})
		}
		wg.Wait()
	})
}

// Zipf-distributed keys, more than fit, some of them unknown, with a loader that
// takes 100µs.
func BenchmarkZipf(b *testing.B) {
	benchmarkShards(b, func(b *testing.B, shards int) {
		b.Helper()
		keys := benchKeys(100_000)
		var errs sync.Map
		c := mustNew(b, Options{Entries: 20_000, shards: shards}, func(_ context.Context, k id) (*int, error) {
			time.Sleep(100 * time.Microsecond)
			if k.token[len(k.token)-1] == '7' {
				return nil, ErrNotFound
			}
			return nil, nil
		})
		ctx := b.Context()
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			z := rand.NewZipf(rand.New(rand.NewPCG(rand.Uint64(), 1)), 1.1, 1, uint64(len(keys)-1))
			for pb.Next() {
				if _, err := c.Get(ctx, keys[z.Uint64()]); err != nil && !errors.Is(err, ErrNotFound) {
					errs.Store(err.Error(), true)
				}
			}
		})
		errs.Range(func(err, _ any) bool { b.Errorf("%v", err); return true })
	})
}
