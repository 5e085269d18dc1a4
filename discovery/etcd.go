package discovery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/resolver"
)

// maxRemembered bounds for how many keys the last good endpoints are kept
// while nobody resolves them.
const maxRemembered = 1024

// Etcd resolves targets with scheme etcd ([EtcdTarget]). The ClientConns that
// resolve the same target share one watch, which starts with the first and
// stops when the last is closed (or goes idle).
type Etcd struct {
	api     etcdAPI
	log     *slog.Logger
	timings timings

	mu         sync.Mutex
	closed     bool
	watches    map[watchKey]*watch
	remembered map[watchKey][]endpoint // the last good endpoints of watches that stopped
}

// etcdAPI is what a watch needs of *clientv3.Client.
type etcdAPI interface {
	Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error)
	Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan
}

type watchKey struct {
	key    string
	layout layout
}

// timings of a watch.
type timings struct {
	grace       time.Duration // how long an emptied list is not believed
	probe       time.Duration // how often the list is compared with the watch
	minProbe    time.Duration // the least pause between two comparisons that gRPC asks for
	listTimeout time.Duration // how long etcd may take to answer
	recall      time.Duration // how long a first list may take before remembered endpoints serve
	minBackoff  time.Duration // the pause after a first failure
	maxBackoff  time.Duration // the longest pause
}

// defaultTimings: the grace period leaves instances time to notice that their
// lease is gone (a third of its TTL of usually 10 s) and to register again.
func defaultTimings() timings {
	return timings{
		grace:       30 * time.Second,
		probe:       10 * time.Second,
		minProbe:    time.Second,
		listTimeout: 3 * time.Second,
		recall:      100 * time.Millisecond,
		minBackoff:  100 * time.Millisecond,
		maxBackoff:  5 * time.Second,
	}
}

// NewEtcd returns the resolver for the etcd that cli is connected to. The
// client stays the caller's, who closes it after the Etcd.
func NewEtcd(cli *clientv3.Client, log *slog.Logger) *Etcd {
	return newEtcd(cli, log, defaultTimings())
}

func newEtcd(api etcdAPI, log *slog.Logger, t timings) *Etcd {
	return &Etcd{
		api: api, log: log, timings: t,
		watches:    make(map[watchKey]*watch),
		remembered: make(map[watchKey][]endpoint),
	}
}

// Builder returns the builder to give to grpc.WithResolvers.
func (e *Etcd) Builder() resolver.Builder { return etcdBuilder{e} }

// Close stops all watches and waits for them. ClientConns that still resolve
// keep the endpoints they have.
func (e *Etcd) Close() {
	e.mu.Lock()
	e.closed = true
	var stopping []*watch
	for key, w := range e.watches {
		delete(e.watches, key)
		w.cancel()
		stopping = append(stopping, w)
	}
	e.mu.Unlock()
	for _, w := range stopping {
		<-w.done
	}
}

// join returns the watch of a key, which it starts if need be. leave must
// follow.
func (e *Etcd) join(key watchKey) (*watch, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.New("etcd resolver is closed")
	}
	w := e.watches[key]
	if w == nil {
		w = startWatch(e.api, key, e.remembered[key], e.timings, e.log)
		delete(e.remembered, key)
		e.watches[key] = w
	}
	w.users++
	return w, nil
}

// leave stops the watch when nobody uses it any more, and waits for its end.
func (e *Etcd) leave(w *watch) {
	e.mu.Lock()
	w.users--
	last := w.users == 0 && e.watches[w.key] == w
	if last {
		delete(e.watches, w.key)
		e.rememberLocked(w.key, w.told().endpoints)
		w.cancel()
	}
	e.mu.Unlock()
	if last {
		<-w.done
	}
}

func (e *Etcd) rememberLocked(key watchKey, endpoints []endpoint) {
	if len(endpoints) == 0 {
		return
	}
	for other := range e.remembered {
		if len(e.remembered) < maxRemembered {
			break
		}
		delete(e.remembered, other)
	}
	e.remembered[key] = endpoints
}
