package rpcproxy

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

func (t *table) find(key connKey) *entry { return t.get(t.hash(&key), &key) }

func (t *table) entryOf(key connKey) *entry { return &entry{key: key, hash: t.hash(&key)} }

// The table does what a map does, however entries come and go.
func TestTableIsAMap(t *testing.T) {
	const keys = 3000
	table, want := newTable(), map[connKey]*entry{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 * keys {
		key := connKey{Credential: app(fmt.Sprint(r.IntN(keys)))}
		if e := want[key]; e != nil {
			table.removeLocked(e)
			delete(want, key)
			continue
		}
		want[key] = table.entryOf(key)
		table.putLocked(want[key])
	}
	for i := range keys {
		key := connKey{Credential: app(fmt.Sprint(i))}
		if got := table.find(key); got != want[key] {
			t.Fatalf("%v: %p, want %p", key, got, want[key])
		}
	}
	// What was removed takes no room for good.
	for i := range table.shards {
		s := &table.shards[i]
		if n := len(*s.slots.Load()); n > max(minSlots, 8*keys/tableShards) {
			t.Errorf("shard %d has %d slots for %d entries", i, n, s.live)
		}
	}
}

// An entry is not found by what differs in one field, or is cut elsewhere.
func TestTableTellsKeysApart(t *testing.T) {
	table := newTable()
	keys := []connKey{
		{},
		{Credential{"a", "1", "b/c"}, ""},
		{Credential{"a/b", "1", "c"}, ""},
		{Credential{"a", "2", "b/c"}, ""},
		{Credential{"a", "1", "b/c"}, "10.0.0.1:1"},
		{Credential{"a", "1b", "/c"}, ""},
		{Credential{"", "", "a"}, ""},
		{Credential{"a", "", ""}, ""},
	}
	for i, key := range keys {
		for _, other := range keys[i:] {
			if table.find(other) != nil {
				t.Fatalf("%v is found before it is put", other)
			}
		}
		table.putLocked(table.entryOf(key.compact()))
		if e := table.find(key); e == nil || e.key != key {
			t.Fatalf("%v is not found, or another: %v", key, e)
		}
	}
}

// Who reads while others write finds what is there throughout, once it is looked
// for again under the lock, and never another's.
func TestTableReadWhileWritten(t *testing.T) {
	table := newTable()
	var lock sync.Mutex
	stays := connKey{Credential: app("stays")}
	table.putLocked(table.entryOf(stays))
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := 0; !done.Load(); i++ {
				key := connKey{Credential: app(fmt.Sprint(i % 500))}
				if e := table.find(key); e != nil && e.key != key {
					t.Errorf("looked for %v, found %v", key, e.key)
				}
				if table.find(stays) != nil {
					continue
				}
				lock.Lock()
				if table.find(stays) == nil {
					t.Error("an entry is lost")
				}
				lock.Unlock()
			}
		})
	}
	for range 20 {
		var all []*entry
		for i := range 500 {
			e := table.entryOf(connKey{Credential: app(fmt.Sprint(i))})
			lock.Lock()
			table.putLocked(e)
			lock.Unlock()
			all = append(all, e)
		}
		rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		for _, e := range all {
			lock.Lock()
			table.removeLocked(e)
			lock.Unlock()
		}
	}
	done.Store(true)
	wg.Wait()
}

func TestApps(t *testing.T) {
	entries := func(a apps, app string) map[*entry]bool {
		set := map[*entry]bool{}
		for e := range a.of(app) {
			set[e] = true
		}
		return set
	}
	for first := range 3 {
		for second := range 3 {
			if second == first {
				continue
			}
			a := apps{}
			list := make([]*entry, 3)
			for i := range list {
				list[i] = &entry{key: connKey{Credential: app("a")}}
				a.add(list[i])
			}
			other := &entry{key: connKey{Credential: app("b")}}
			a.add(other)
			a.remove(list[first])
			if got := entries(a, "a"); len(got) != 2 || got[list[first]] {
				t.Errorf("without %d: %d are left", first, len(got))
			}
			a.remove(list[second])
			if got := entries(a, "a"); len(got) != 1 || !got[list[3-first-second]] {
				t.Errorf("without %d and %d: %d are left", first, second, len(got))
			}
			a.remove(list[3-first-second])
			if len(a) != 1 || !entries(a, "b")[other] {
				t.Errorf("%d apps are left", len(a))
			}
		}
	}
}
