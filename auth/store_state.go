package auth

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/credcache"
)

// StoreState is what is known of Redis.
type StoreState struct {
	// Reached: it has answered a look-up since this process started.
	Reached bool
	// Answers: it answered the last time it was asked, at most a second or so ago.
	Answers bool
}

// storeState is how a verifier finds out.
type storeState struct{ reached, answers atomic.Bool }

const (
	// probeInterval is how often Redis is asked whether it answers;
	// probeRetry, while it does not.
	probeInterval = time.Second
	probeRetry    = 100 * time.Millisecond
	// nobody is no app's id: parsers let no such character through.
	nobody = "*"
)

// Store tells what is known of Redis, while Run runs.
func (v *Verifier) Store() StoreState {
	return StoreState{v.store.reached.Load(), v.store.answers.Load()}
}

// watchStore asks Redis again and again for a credential that there is not, as a
// look-up does: so it is known whether the gateway can do its work before a call
// needs it, without a right to do anything else. Once Redis is back, no call is
// refused for an earlier failure any more.
func (v *Verifier) watchStore(ctx context.Context) {
	lost := false // and said so
	for {
		err := v.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		was := v.store.answers.Swap(err == nil)
		wait := probeInterval
		switch {
		case err == nil && !was:
			v.store.reached.Store(true)
			v.metrics.storeUp.Set(1)
			v.cache.Recovered()
			lost = false
			v.log.InfoContext(ctx, "Redis answers")
			v.warnOfEviction(ctx)
		case err != nil:
			wait = probeRetry
			v.metrics.storeUp.Set(0)
			if !lost {
				lost = true
				v.log.WarnContext(ctx, "Redis does not answer; trying again", "error", err)
			}
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

func (v *Verifier) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.loadTimeout)
	defer cancel()
	_, err := v.layout.load(ctx, cacheKey{app: nobody})
	if errors.Is(err, credcache.ErrNotFound) {
		return nil
	}
	if cause := errors.Unwrap(err); cause != nil {
		return cause // whose credential was asked for says nothing
	}
	return err
}

// warnOfEviction says in the log and the metrics that Redis may drop tokens when
// it is full. A user that may not ask (INFO) is not warned.
func (v *Verifier) warnOfEviction(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, v.loadTimeout)
	defer cancel()
	v.metrics.storeEvicts.Set(0)
	ask := func(ctx context.Context, node *redis.Client) error {
		text, err := node.Info(ctx, "memory").Result()
		if err != nil {
			v.log.DebugContext(ctx, "what Redis does when it is full is not known", "error", err)
			return nil
		}
		if policy := evictionPolicy(text); policy != "" {
			v.metrics.storeEvicts.Set(1)
			v.log.WarnContext(ctx, "Redis may drop tokens when it is full: set maxmemory-policy to noeviction", "maxmemory_policy", policy)
		}
		return nil
	}
	switch rdb := v.rdb.(type) {
	case *redis.ClusterClient:
		_ = rdb.ForEachMaster(ctx, ask)
	case *redis.Client:
		_ = ask(ctx, rdb)
	}
}

// evictionPolicy finds, in what INFO says of the memory, the policy by which keys
// are evicted; "" if none is.
func evictionPolicy(info string) string {
	limit, policy := "0", ""
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "maxmemory":
			limit = value
		case "maxmemory_policy":
			policy = value
		}
	}
	if limit == "0" || policy == "noeviction" {
		return ""
	}
	return policy
}
