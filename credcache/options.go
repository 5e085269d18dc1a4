package credcache

import (
	"cmp"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options bound a cache. A zero field has the default named beside it.
type Options struct {
	// Name tells this cache's metrics apart from another's: the label "cache".
	// Default "default".
	Name string

	// Entries is how many values are remembered. Default 65536. The bound is
	// kept per shard, so that very uneven keys may be evicted a little early.
	Entries int
	// NegativeEntries is how many misses and failures are remembered, apart
	// from the values. Default 8192.
	NegativeEntries int
	// MaxLoads is how many look-ups may run at once. Default 128.
	MaxLoads int

	// TTL is how long an answer is used; from 7/10 of it on it is asked for again
	// beside its use. Default 5m.
	TTL time.Duration
	// NegativeTTL is how long [ErrNotFound] is remembered. Default 5s.
	NegativeTTL time.Duration
	// Stale is how long past its TTL an answer still serves while the loader
	// fails. 0: not at all.
	Stale time.Duration
	// ServeAnyStale lets an answer serve however old it is while the loader
	// fails, as long as it is not evicted.
	ServeAnyStale bool
	// StaleWait is how long a caller who could be served a stale answer waits
	// for the new one, where nothing is known of the loader. Default 100ms.
	StaleWait time.Duration

	// LoadTimeout is how long one look-up may take. Default 1s.
	LoadTimeout time.Duration
	// RetryMin and ErrorTTL bound the time between two look-ups of a key whose
	// look-up failed: it doubles from failure to failure, with jitter. Within
	// it callers get the stale answer or the last error. Defaults 100ms, or
	// ErrorTTL where that is less, and 1s.
	RetryMin, ErrorTTL time.Duration

	// Registerer takes the metrics; nil: none.
	Registerer prometheus.Registerer

	// shards is a power of two; 0: chosen by the number of processors. For tests.
	shards int
}

// minShardEntries keeps small caches exact: a shard evicts by its own LRU order.
const minShardEntries = 1024

func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = "default"
	}
	for _, f := range []struct {
		name  string
		value *int
		def   int
	}{
		{"Entries", &o.Entries, 65536},
		{"NegativeEntries", &o.NegativeEntries, 8192},
		{"MaxLoads", &o.MaxLoads, 128},
	} {
		if *f.value < 0 {
			return o, fmt.Errorf("%s is %d, below zero", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	for _, f := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"TTL", &o.TTL, 5 * time.Minute},
		{"NegativeTTL", &o.NegativeTTL, 5 * time.Second},
		{"Stale", &o.Stale, 0},
		{"StaleWait", &o.StaleWait, 100 * time.Millisecond},
		{"LoadTimeout", &o.LoadTimeout, time.Second},
		{"ErrorTTL", &o.ErrorTTL, time.Second},
		{"RetryMin", &o.RetryMin, min(100*time.Millisecond, cmp.Or(o.ErrorTTL, time.Second))},
	} {
		if *f.value < 0 {
			return o, fmt.Errorf("%s is %s, below zero", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	o.ErrorTTL = max(o.ErrorTTL, o.RetryMin)
	if o.shards == 0 {
		o.shards = shardsFor(min(o.Entries, o.NegativeEntries), runtime.GOMAXPROCS(0))
	}
	return o, nil
}

// shardsFor gives a few shards per processor, as long as each stays large
// enough. On one and two processors no gain from sharding was seen (BenchmarkHit,
// best of five: 78ns with one shard, 125ns with eight), and one shard keeps the
// LRU order exact. On more processors it has not been measured: there the shards
// rest on the reasoning that one mutex would be passed around by all of them.
func shardsFor(entries, procs int) int {
	if procs <= 2 {
		return 1
	}
	n := 1
	for n < 4*procs && entries/(2*n) >= minShardEntries {
		n *= 2
	}
	return n
}
