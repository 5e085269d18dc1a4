package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
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
		if len(w.remembered) > 0 || len(w.told().endpoints) > 0 {
			w.log.Warn("lost the watch of etcd; the last known endpoints stay", "error", err)
		} else {
			w.log.Warn("etcd does not answer; no endpoints are known yet", "error", err)
		}
	}
	w.lost = true
	w.recall()
	if u := w.told(); !u.known {
		w.tell(update{err: fmt.Errorf("looking for endpoints under etcd key %q: %w", w.key.key, err)})
	}
}
