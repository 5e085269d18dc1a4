package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// This file is the part of a watch that speaks with etcd; all of it runs in the
// watch's one goroutine.

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
		w.members.extend(now)
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
