package auth

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/credcache"
)

// timing is the rhythm of the subscription. A connection that is dead without a
// sign (half-open, or a Redis that stands still) is noticed within
// pingInterval + pingTimeout.
type timing struct {
	pingInterval     time.Duration
	pingTimeout      time.Duration
	minWait, maxWait time.Duration // between attempts to subscribe
	verifyRetry      time.Duration // between passes over what is remembered
	deafInterval     time.Duration // between passes while revocations cannot be heard
	maxQuestionsWait time.Duration // between attempts to hear questions
	beatInterval     time.Duration // between signs of life
	useInterval      time.Duration // between notes of what was used
	leaveTimeout     time.Duration // of what is written last
}

func defaultTiming() timing {
	return timing{
		pingInterval: time.Second,
		pingTimeout:  time.Second,
		minWait:      50 * time.Millisecond,
		maxWait:      time.Second,
		verifyRetry:  500 * time.Millisecond,

		deafInterval:     2 * time.Second,
		maxQuestionsWait: 30 * time.Second,
		beatInterval:     2 * time.Second,
		useInterval:      time.Minute + time.Second, // no token is written twice in a minute
		leaveTimeout:     time.Second,
	}
}

// Run hears revocations until ctx ends, and then returns nil; beside that it
// gives signs of life, answers questions, and notes which tokens are used. It
// must run while credentials are verified; without it a revocation shows only
// when the cache asks again.
//
// Redis keeps no messages for who is not there. So whenever the subscription is
// made (anew), everything remembered is looked up again, at once, and what is
// in use first; and while it cannot be made, what is remembered is asked for
// again every second at most by who uses it, and every two by the verifier
// itself, so that even a gateway that may ask but not subscribe hears of a
// revocation in about that time. Where Redis cannot be asked either, what is remembered keeps serving as far as the mode allows.
func (v *Verifier) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { v.cache.Run(ctx) })
	beside.Go(func() { v.watchStore(ctx) })
	beside.Go(func() { v.verifyWhileDeaf(ctx) })
	beside.Go(func() { v.beat(ctx) })
	beside.Go(func() { v.watchImported(ctx) })
	beside.Go(func() { v.answerQuestions(ctx) })
	if v.layout.keepsUses() {
		beside.Go(func() { v.noteUses(ctx) })
	}
	wait, down := v.timing.minWait, false
	for {
		start := time.Now()
		confirmed, err := v.subscription(ctx)
		if ctx.Err() != nil {
			return nil
		}
		v.cache.ExpireAll()
		if confirmed {
			down = false
		}
		// One that never lasts must not have everything looked up all the time.
		if time.Since(start) > v.timing.maxWait {
			wait = v.timing.minWait
		}
		if !down {
			down = true
			v.metrics.interruptions.Inc()
			log := v.log
			if redis.IsPermissionError(err) {
				log = log.With("hint", "the ACL user needs the right to this channel")
			}
			log.WarnContext(ctx, "revocations cannot be heard; trying again", "channel", v.channel, "error", err)
		}
		if !sleep(ctx, wait) {
			return nil
		}
		wait = min(2*wait, v.timing.maxWait)
	}
}

// subscription hears one subscription to the channel of revocations to its end.
// confirmed tells whether Redis ever confirmed it.
func (v *Verifier) subscription(ctx context.Context) (confirmed bool, err error) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer v.metrics.subscribed.Set(0)
	defer v.hearing.Store(false)
	return v.listen(ctx, v.channel, func() {
		// From here on nothing is missed. What was looked up before may be old.
		v.cache.ExpireAll()
		v.hearing.Store(true)
		v.metrics.subscribed.Set(1)
		v.log.InfoContext(ctx, "revocations are being heard", "channel", v.channel)
		wg.Go(func() { v.verifyAll(ctx) })
	}, func(text string) { v.hear(ctx, text) })
}

// hear does what a message says. One that it cannot read may mean anything.
func (v *Verifier) hear(ctx context.Context, text string) {
	m, ok := tenant.ParseMessage(text)
	if !ok {
		v.log.WarnContext(ctx, "an unknown message on the channel of revocations; all credentials are looked up again", "channel", v.channel)
		v.cache.ExpireAll()
		return
	}
	if m.Kind == tenant.KindRevoked && m.ID != "" {
		v.ended.add(cacheKey{m.App, m.ID})
	}
	v.forget(m)
	if m.ID == tenant.ImportedID {
		v.imported.note(true)
	}
	if m.Kind != tenant.KindChanged {
		v.metrics.revocations.WithLabelValues("message").Inc()
		v.log.InfoContext(ctx, "a credential is not valid any more", "app", m.App, "token_id", m.ID, "found_by", "message")
		v.onRevoke(Revocation{App: m.App, TokenID: m.ID})
	}
}

// forget drops what m is about from the cache, and tells the principals of what
// it dropped. The cache drops and returns in one step: no look-up can put a
// record in between that is dropped and not told.
func (v *Verifier) forget(m tenant.Message) {
	var dropped []*record
	if m.ID == "" {
		dropped = v.cache.InvalidateFunc(func(k cacheKey) bool { return k.app == m.App })
	} else if r, ok := v.cache.Invalidate(cacheKey{m.App, m.ID}); ok {
		dropped = append(dropped, r)
	}
	if m.Kind == tenant.KindChanged {
		return
	}
	for _, r := range dropped {
		r.principal.state.revoked.Store(true)
	}
}

// verifyAll looks everything remembered up again; lookUp notices what changed.
// Keys that fail are tried again until ctx ends.
func (v *Verifier) verifyAll(ctx context.Context) {
	keys := v.cache.Keys()
	for len(keys) > 0 {
		keys = v.verify(ctx, keys)
		if len(keys) > 0 && !sleep(ctx, v.timing.verifyRetry) {
			return
		}
	}
}

// maxVerifying leaves most of the cache's look-ups to callers.
const maxVerifying = 16

// verify looks keys up and returns those for which that failed.
func (v *Verifier) verify(ctx context.Context, keys []cacheKey) (failed []cacheKey) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	work := make(chan cacheKey)
	for range min(v.workers, len(keys)) {
		wg.Go(func() {
			for k := range work {
				if err := v.cache.Refresh(ctx, k); err != nil && !errors.Is(err, credcache.ErrNotFound) {
					mu.Lock()
					failed = append(failed, k)
					mu.Unlock()
				}
			}
		})
	}
feed:
	for _, k := range keys {
		select {
		case work <- k:
		case <-ctx.Done():
			break feed
		}
	}
	close(work)
	wg.Wait()
	return failed
}

// sleep waits for d. It is false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
