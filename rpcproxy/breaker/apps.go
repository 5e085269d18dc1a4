package breaker

import (
	"container/list"
	"hash/maphash"
	"maps"
	"sync/atomic"
	"time"
)

const (
	// maxApps bounds the apps of one method that have a circuit of their own; an
	// app beyond that takes the place of the one that called least recently. A
	// circuit takes about 2 KiB.
	maxApps = 1000

	// appShards bounds what one insertion copies.
	appShards = 64

	// recency is how exactly it is known when an app called last: writing it
	// down for each call would move a line of memory between processors.
	recency = time.Second

	// sweepInterval is how often apps are looked for that nothing need be
	// remembered of.
	sweepInterval = 10 * time.Second
)

// appTable has the circuits of apps. Reading takes no lock and allocates
// nothing: each shard is an immutable map, which writers, who hold the group's
// lock, replace by a changed copy.
type appTable struct {
	seed   maphash.Seed
	size   atomic.Int64
	shards [appShards]atomic.Pointer[map[string]*appEntry]
	order  *list.List // of *appEntry; front: most recently looked at
}

// appEntry is an app's circuit.
type appEntry struct {
	app     string
	circuit circuit
	used    atomic.Int64 // when it was used last, within recency
	stamp   int64        // used, as of the last look
	place   *list.Element
}

func newAppTable() *appTable { return &appTable{seed: maphash.MakeSeed(), order: list.New()} }

func (t *appTable) shard(app string) *atomic.Pointer[map[string]*appEntry] {
	return &t.shards[maphash.String(t.seed, app)%appShards]
}

// get gives an app's circuit; nil: it has none.
func (t *appTable) get(app string, now time.Duration) circuit {
	if t.size.Load() == 0 {
		return nil
	}
	m := t.shard(app).Load()
	if m == nil {
		return nil
	}
	e := (*m)[app]
	if e == nil {
		return nil
	}
	if used := e.used.Load(); int64(now)-used >= int64(recency) {
		e.used.Store(int64(now))
	}
	return e.circuit
}

// putLocked adds an app, which has none yet, and makes room for it.
func (t *appTable) putLocked(app string, c circuit, now time.Duration) {
	for t.order.Len() >= maxApps {
		// One that was used since it was last looked at gets a second chance
		// (CLOCK). It is looked at once only: what is used meanwhile is not.
		oldest, _ := t.order.Back().Value.(*appEntry)
		if used := oldest.used.Load(); used != oldest.stamp {
			oldest.stamp = used
			t.order.MoveToFront(oldest.place)
			continue
		}
		t.removeLocked(oldest)
	}
	e := &appEntry{app: app, circuit: c, stamp: int64(now)}
	e.used.Store(e.stamp)
	e.place = t.order.PushFront(e)
	t.changeLocked(app, func(m map[string]*appEntry) { m[app] = e })
}

func (t *appTable) removeLocked(e *appEntry) {
	t.order.Remove(e.place)
	t.changeLocked(e.app, func(m map[string]*appEntry) { delete(m, e.app) })
}

func (t *appTable) changeLocked(app string, change func(map[string]*appEntry)) {
	shard := t.shard(app)
	changed := map[string]*appEntry{}
	if m := shard.Load(); m != nil {
		changed = maps.Clone(*m)
	}
	change(changed)
	shard.Store(&changed)
	t.size.Store(int64(t.order.Len()))
}

// dropLocked forgets an app.
func (t *appTable) dropLocked(app string) {
	if m := t.shard(app).Load(); m != nil {
		if e := (*m)[app]; e != nil {
			t.removeLocked(e)
		}
	}
}

// allLocked gives the entries, the most recently looked at first.
func (t *appTable) allLocked() []*appEntry {
	all := make([]*appEntry, 0, t.order.Len())
	for e := t.order.Front(); e != nil; e = e.Next() {
		entry, _ := e.Value.(*appEntry)
		all = append(all, entry)
	}
	return all
}

// sweepLocked forgets the apps that nothing need be remembered of. kept: those
// that called within this time stay, for their successes count.
func (t *appTable) sweepLocked(now, kept time.Duration) {
	for _, e := range t.allLocked() {
		if now-time.Duration(e.used.Load()) >= kept && e.circuit.quiet(now) {
			t.removeLocked(e)
		}
	}
}
