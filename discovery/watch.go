package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// watch follows one key for all who resolve it. One goroutine owns the members;
// users read what it last told.
type watch struct {
	key     watchKey
	api     etcdAPI
	prefix  string // key + "/", so that shop.rpc does not match shop.rpc2/…
	timings timings
	log     *slog.Logger

	remembered []endpoint // from an earlier watch of the key

	users  int // guarded by Etcd.mu
	cancel context.CancelFunc
	done   chan struct{}
	hints  chan struct{}

	// Owned by run.
	members  *members
	listed   time.Time // when etcd last gave the whole list
	revision int64     // up to which members is what etcd holds
	streams  int       // how many watch streams were asked for
	lost     bool      // etcd cannot be asked at the moment

	mu  sync.Mutex
	now update
}

// update is what a watch tells its users.
type update struct {
	endpoints []endpoint
	known     bool          // etcd was asked with success: an empty list means that there are none
	err       error         // why there are no endpoints
	changed   chan struct{} // closed when there is a newer update
}

// startWatch starts the goroutine that w.cancel stops and that closes w.done.
// The remembered endpoints serve if etcd does not answer.
func startWatch(api etcdAPI, key watchKey, remembered []endpoint, t timings, log *slog.Logger) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{
		key: key, api: api, prefix: key.key + "/", timings: t,
		log: log.With("etcd_key", key.key), remembered: remembered,
		cancel: cancel, done: make(chan struct{}), hints: make(chan struct{}, 1),
	}
	w.members = newMembers(key.layout, t.grace, w.log)
	w.members.last = remembered
	w.tell(update{})
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w
}

// told returns the latest update.
func (w *watch) told() update {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// hint asks to compare the watch with etcd's list soon.
func (w *watch) hint() {
	select {
	case w.hints <- struct{}{}:
	default: // one is waiting already
	}
}

func (w *watch) tell(u update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tellLocked(u)
}

func (w *watch) tellLocked(u update) {
	if w.now.changed != nil {
		close(w.now.changed)
	}
	u.changed = make(chan struct{})
	w.now = u
}

// run lists and follows until ctx ends. Whatever goes wrong (no answer, no
// leader, a compacted revision, an expired auth token), it lists anew.
func (w *watch) run(ctx context.Context) {
	recall := time.AfterFunc(w.timings.recall, w.recall)
	defer recall.Stop()
	retry := backoff{min: w.timings.minBackoff, max: w.timings.maxBackoff}
	for {
		err := w.relist(ctx)
		recall.Stop()
		if err == nil {
			started := time.Now()
			err = w.follow(ctx)
			if time.Since(started) > w.timings.maxBackoff {
				retry.reset()
			}
		}
		if ctx.Err() != nil {
			return
		}
		w.failed(err)
		if !retry.wait(ctx) {
			return
		}
	}
}

// recall lets the remembered endpoints serve while nothing newer is known.
func (w *watch) recall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.now.known && len(w.remembered) > 0 {
		w.tellLocked(update{endpoints: w.remembered, known: true})
	}
}

// failed is called when etcd cannot be asked. What is known stays.
func (w *watch) failed(err error) {
	if !w.lost {
		w.log.Warn("lost the watch of etcd; the last known endpoints stay", "error", err)
	}
	w.lost = true
	w.recall()
	if u := w.told(); !u.known {
		w.tell(update{err: fmt.Errorf("looking for endpoints under etcd key %q: %w", w.key.key, err)})
	}
}

// relist makes the members what etcd lists, and tells.
func (w *watch) relist(ctx context.Context) error {
	if _, err := w.compare(ctx); err != nil {
		return err
	}
	if w.lost {
		w.log.Info("watching etcd again")
		w.lost = false
	}
	return nil
}

// compare asks etcd for the whole list, which wins over what the watch brought.
// It reports whether the watch must start anew from w.revision: because it
// missed something, is merely behind, or follows a store that was replaced by
// one with an earlier revision (in which the watch would wait for a revision far away).
func (w *watch) compare(ctx context.Context) (restart bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.timings.listTimeout)
	defer cancel()
	listed, err := w.api.Get(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithLimit(maxMembers))
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("etcd did not answer within %v: %w", w.timings.listTimeout, err)
		}
		return false, err
	}
	kvs := make([]kv, 0, len(listed.Kvs))
	for _, r := range listed.Kvs {
		kvs = append(kvs, kv{key: string(r.Key), value: string(r.Value), revision: r.ModRevision})
	}
	now := time.Now()
	if w.lost {
		w.members.extendGrace(now)
	}
	restart = w.members.replace(kvs) || listed.Header.Revision < w.revision
	w.listed, w.revision = now, listed.Header.Revision
	w.settle(now)
	return restart, nil
}

// settle tells what the members come to, unless it was told already.
func (w *watch) settle(now time.Time) {
	endpoints := w.members.settle(now)
	u := update{endpoints: endpoints, known: true}
	if len(endpoints) == 0 {
		u.err = fmt.Errorf("no endpoints are registered under etcd key %q", w.key.key)
	}
	if told := w.told(); told.known && slices.Equal(told.endpoints, endpoints) {
		return
	}
	w.log.Info("endpoints changed", "count", len(endpoints))
	w.tell(u)
}

// follow applies changes from w.revision on, until the watch breaks.
func (w *watch) follow(ctx context.Context) error {
	for {
		again, err := w.followOnce(ctx)
		if !again {
			return err
		}
	}
}

func (w *watch) followOnce(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := w.open(ctx, cancel)
	if err != nil {
		return false, err
	}
	probe := time.NewTimer(w.pause())
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case change, ok := <-changes:
			if !ok {
				return false, errors.New("etcd closed the watch")
			}
			if err := change.Err(); err != nil {
				return false, err
			}
			w.apply(change)
			probe.Reset(w.pause())
		case <-w.hints:
			probe.Reset(max(0, time.Until(w.listed.Add(w.timings.minProbe))))
		case <-probe.C:
			restart, err := w.compare(ctx)
			if err != nil || restart {
				return restart, err
			}
			probe.Reset(w.pause())
		}
	}
}

// open starts the watch. It has a gRPC stream of its own: etcd checks the auth
// token that a stream was opened with, so on a shared one an expired token
// would refuse all later watches.
func (w *watch) open(ctx context.Context, cancel context.CancelFunc) (clientv3.WatchChan, error) {
	w.streams++
	ctx = metadata.AppendToOutgoingContext(ctx, "rpcgate-watch", fmt.Sprintf("%p-%d", w, w.streams))
	// Watch blocks until etcd has created the watch.
	limit := time.AfterFunc(w.timings.listTimeout, cancel)
	// A member that lost its leader ends the watch instead of letting it sleep.
	changes := w.api.Watch(clientv3.WithRequireLeader(ctx), w.prefix, clientv3.WithPrefix(), clientv3.WithRev(w.revision+1))
	if !limit.Stop() {
		return nil, fmt.Errorf("etcd did not start the watch within %v", w.timings.listTimeout)
	}
	return changes, nil
}

func (w *watch) apply(change clientv3.WatchResponse) {
	for _, event := range change.Events {
		key := string(event.Kv.Key)
		if event.Type == clientv3.EventTypeDelete {
			w.members.remove(key)
		} else {
			w.members.put(kv{key: key, value: string(event.Kv.Value), revision: event.Kv.ModRevision})
		}
	}
	w.revision = max(w.revision, change.Header.Revision)
	w.settle(time.Now())
}

// pause is how long to wait before the next comparison: the probe interval, less
// a jitter of up to a fifth, or until held endpoints expire.
func (w *watch) pause() time.Duration {
	pause := jitter(w.timings.probe)
	if expiry := w.members.nextExpiry(); !expiry.IsZero() {
		pause = min(pause, max(0, time.Until(expiry)))
	}
	return pause
}
