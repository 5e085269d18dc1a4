package keyed_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rpcgate/rpcgate/limits/keyed"
)

type key struct{ app, route string }

func TestTableFindsWhatWasPut(t *testing.T) {
	t.Parallel()
	table := keyed.New[key, atomic.Int64](10_000)
	for i := range 5000 {
		table.Put(key{strconv.Itoa(i), "x"}).Store(int64(i))
	}
	for i := range 5000 {
		v := table.Get(key{strconv.Itoa(i), "x"})
		if v == nil || v.Load() != int64(i) {
			t.Fatalf("value of %d is %v", i, v)
		}
		if table.Put(key{strconv.Itoa(i), "x"}) != v {
			t.Fatalf("%d was put twice", i)
		}
	}
	if table.Get(key{"x", "1"}) != nil || table.Len() != 5000 {
		t.Errorf("%d keys", table.Len())
	}
	table.Sweep(func(k key, v *atomic.Int64) bool {
		if strconv.Itoa(int(v.Load())) != k.app {
			t.Errorf("%v has the value %d", k, v.Load())
		}
		return v.Load()%3 == 0
	})
	for i := range 5000 {
		if v := table.Get(key{strconv.Itoa(i), "x"}); (v != nil) != (i%3 == 0) {
			t.Fatalf("%d after the sweep: %v", i, v)
		}
	}
	if table.Len() != 1667 {
		t.Errorf("%d keys are left, want 1667", table.Len())
	}
}

func TestTableIsBounded(t *testing.T) {
	t.Parallel()
	table := keyed.New[int, int](1000)
	refused := 0
	for i := range 100_000 {
		if table.Put(i) == nil {
			refused++
		}
	}
	if n := table.Len(); n > 1000+64 || n+refused != 100_000 {
		t.Errorf("%d keys, %d refused", n, refused)
	}
}

// Readers find keys that stay, whatever is put and taken out beside them.
func TestTableIsReadWhileItChanges(t *testing.T) {
	t.Parallel()
	table := keyed.New[int, atomic.Int64](1 << 20)
	for i := range 100 {
		table.Put(-i).Store(1)
	}
	var working sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		working.Go(func() {
			for !stop.Load() {
				for i := range 100 {
					if table.Get(-i) == nil {
						t.Error("a key that stays was not found")
						return
					}
				}
			}
		})
	}
	for round := range 50 {
		for i := 1; i < 2000; i++ {
			table.Put(round*2000 + i)
		}
		table.Sweep(func(k int, _ *atomic.Int64) bool { return k <= 0 })
	}
	stop.Store(true)
	working.Wait()
	if table.Len() != 100 {
		t.Errorf("%d keys are left, want 100", table.Len())
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	table := keyed.New[key, atomic.Int64](100)
	table.Put(key{"acme", "GET /"})
	if n := testing.AllocsPerRun(1000, func() { table.Get(key{"acme", "GET /"}).Add(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGet(b *testing.B) {
	table := keyed.New[key, atomic.Int64](1 << 17)
	keys := make([]key, 100_000)
	for i := range keys {
		keys[i] = key{"app" + strconv.Itoa(i), "GET /v1/users/{id}"}
		table.Put(keys[i])
	}
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					table.Get(keys[i%n])
				}
			})
		})
	}
}
