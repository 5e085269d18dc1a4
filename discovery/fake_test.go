package discovery

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// fakeEtcd is a store with revisions and watches, and the faults of one.
type fakeEtcd struct {
	mu       sync.Mutex
	revision int64
	kvs      map[string]kv
	watches  map[*fakeWatch]bool
	gets     int
	opened   int // watches, ever

	down   bool // nothing answers
	stuck  bool // watches bring nothing, and nothing tells
	refuse bool // watches are ended at once
}

type fakeWatch struct {
	prefix string
	from   int64
	events chan clientv3.WatchResponse
}

func newFakeEtcd() *fakeEtcd {
	return &fakeEtcd{kvs: make(map[string]kv), watches: make(map[*fakeWatch]bool)}
}

func (f *fakeEtcd) Get(ctx context.Context, key string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gets++
	if f.down {
		f.mu.Unlock()
		<-ctx.Done() // clientv3's requests wait for the connection
		f.mu.Lock()
		return nil, ctx.Err()
	}
	out := &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: f.revision}}
	for _, r := range f.kvs {
		if strings.HasPrefix(r.key, key) {
			out.Kvs = append(out.Kvs, &mvccpb.KeyValue{Key: []byte(r.key), Value: []byte(r.value), ModRevision: r.revision})
		}
	}
	slices.SortFunc(out.Kvs, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	return out, nil
}

func (f *fakeEtcd) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	op := clientv3.OpGet(key, opts...)
	w := &fakeWatch{prefix: key, from: op.Rev(), events: make(chan clientv3.WatchResponse, 100)}
	if f.refuse {
		w.events <- clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{}, Canceled: true}
		close(w.events)
		return w.events
	}
	f.watches[w] = true
	context.AfterFunc(ctx, func() { f.end(w, nil) })
	return w.events
}

// end ends a watch as etcd does: with an error, or just so.
func (f *fakeEtcd) end(w *fakeWatch, last *clientv3.WatchResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.watches[w] {
		return
	}
	delete(f.watches, w)
	if last != nil {
		w.events <- *last
	}
	close(w.events)
}

// breakWatches ends all watches with a compaction, or without a word.
func (f *fakeEtcd) breakWatches(compacted bool) {
	f.mu.Lock()
	var all []*fakeWatch
	for w := range f.watches {
		all = append(all, w)
	}
	revision := f.revision
	f.mu.Unlock()
	for _, w := range all {
		var last *clientv3.WatchResponse
		if compacted {
			last = &clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{}, Canceled: true, CompactRevision: revision}
		}
		f.end(w, last)
	}
}

func (f *fakeEtcd) setDown(down bool) {
	f.mu.Lock()
	f.down = down
	f.mu.Unlock()
	if down {
		f.breakWatches(false)
	}
}

// change is one transaction: "key=value" puts, "key" deletes.
func (f *fakeEtcd) change(changes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	var events []*clientv3.Event
	for _, c := range changes {
		key, value, put := strings.Cut(c, "=")
		event := &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: f.revision}}
		if put {
			event.Type = clientv3.EventTypePut
			event.Kv.Value = []byte(value)
			f.kvs[key] = kv{key, value, f.revision}
		} else {
			delete(f.kvs, key)
		}
		events = append(events, event)
	}
	for w := range f.watches {
		response := clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: f.revision}}
		for _, e := range events {
			if strings.HasPrefix(string(e.Kv.Key), w.prefix) && f.revision >= w.from && !f.stuck {
				response.Events = append(response.Events, e)
			}
		}
		if len(response.Events) > 0 {
			w.events <- response
		}
	}
}

// reset is a restart with an empty store, which clients' watches outlive.
func (f *fakeEtcd) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision = 1
	clear(f.kvs)
}

func (f *fakeEtcd) counts() (gets, opened, open int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gets, f.opened, len(f.watches)
}

// fakeConn records what a resolver tells its ClientConn.
type fakeConn struct {
	mu    sync.Mutex
	told  []string // addresses, or "error: …"
	had   bool     // it was told addresses
	empty int      // how often the addresses were taken away
}

func (c *fakeConn) UpdateState(s resolver.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(s.Endpoints) == 0 {
		if c.had {
			c.empty++
		}
		return errors.New("produced zero addresses")
	}
	var all []string
	for _, e := range s.Endpoints {
		all = append(all, e.Addresses[0].Addr)
	}
	c.had = true
	c.told = append(c.told, strings.Join(all, " "))
	return nil
}

func (c *fakeConn) ReportError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, "error: "+err.Error())
}

func (c *fakeConn) NewAddress([]resolver.Address) {}

func (c *fakeConn) ParseServiceConfig(string) *serviceconfig.ParseResult { return nil }

// last returns what was told last; "" for nothing yet.
func (c *fakeConn) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.told) == 0 {
		return ""
	}
	return c.told[len(c.told)-1]
}

// emptied returns how often addresses were taken away without others instead.
func (c *fakeConn) emptied() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.empty
}

// resolve builds a resolver of the target for a recording ClientConn.
func resolve(t *testing.T, b resolver.Builder, target string) (*fakeConn, resolver.Resolver) {
	t.Helper()
	cc := new(fakeConn)
	r, err := b.Build(parseTarget(t, target), cc, resolver.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cc, r
}
