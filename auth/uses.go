package auth

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxUses is how many uses go to Redis in one pipeline.
const maxUses = 512

// use notes that the credential was used. Most calls only read: a mark that all
// of a credential's calls would write would have the processors pass it around.
// What it costs cannot be told from noise (BenchmarkVerifyHit, 0.5 µs).
func (s *state) use() {
	if !s.used.Load() {
		s.used.Store(true)
	}
}

// usedScript notes when a token was last used, by Redis' clock, unless that was
// done within a minute, by this gateway or another. A time that is still to come,
// from another Redis' clock, counts for nothing. A token that is gone is not
// brought back.
//
// KEYS: token.
const usedScript = `
local last = redis.call('HMGET', KEYS[1], 'hash', 'last_used')
if not last[1] then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if last[2] and now - last[2] >= 0 and now - last[2] < 60000 then return 0 end
redis.call('HSET', KEYS[1], 'last_used', string.format('%.0f', now))
return 1`

// noteUses writes down, every while until ctx ends and then once more, which of
// the remembered tokens were used. What is remembered bounds it; the use of a
// token that was forgotten since the last time is not written down.
func (v *Verifier) noteUses(ctx context.Context) {
	failing := false
	for sleep(ctx, v.timing.useInterval) {
		err := v.writeUses(ctx, v.loadTimeout)
		if err != nil && ctx.Err() == nil && !failing {
			v.log.WarnContext(ctx, "when tokens were last used cannot be written down; trying again", "error", err)
		}
		failing = err != nil
	}
	_ = v.writeUses(context.WithoutCancel(ctx), v.timing.leaveTimeout) // the next gateway's uses will show
}

// writeUses writes what was not written yet; timeout is that of each pipeline.
// It ends with the first that fails.
func (v *Verifier) writeUses(ctx context.Context, timeout time.Duration) error {
	batch := make([]cacheKey, 0, maxUses)
	for _, k := range v.cache.Keys() {
		if r, ok := v.cache.Peek(k); ok && r.principal.state.used.Load() {
			batch = append(batch, k)
		}
		if len(batch) == maxUses {
			if err := v.writeBatch(ctx, timeout, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return v.writeBatch(ctx, timeout, batch)
}

func (v *Verifier) writeBatch(ctx context.Context, timeout time.Duration, batch []cacheKey) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	marks := make([]*state, 0, len(batch))
	_, err := v.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range batch {
			r, ok := v.cache.Peek(k)
			if !ok {
				continue
			}
			marks = append(marks, r.principal.state)
			r.principal.state.used.Store(false) // before the write: a use during it counts for the next
			p.Eval(ctx, usedScript, []string{v.keys.Token(k.app, k.id)})
		}
		return nil
	})
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	for _, s := range marks {
		s.used.Store(true)
	}
	return err
}
