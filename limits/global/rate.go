package global

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/limits"
)

// ownKeys lets redis_rate use keys as they are given. It puts "rate:" before all of
// them, and has no way to be told another prefix; but which keys may be used is
// for the configuration, and for Redis's ACLs, to say. What is not here it does
// not use.
type ownKeys struct{ redis.UniversalClient }

func own(keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = strings.TrimPrefix(k, "rate:")
	}
	return out
}

func (c ownKeys) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return c.UniversalClient.Eval(ctx, script, own(keys), args...)
}

func (c ownKeys) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return c.UniversalClient.EvalSha(ctx, sha1, own(keys), args...)
}

// numbers ends the key of a rate: a bucket says how long it takes until it is full,
// which means something else for each rate. A rate that changes begins anew.
func numbers(s limits.Spec) string {
	return fmt.Sprintf(":%d-%d-%v", s.Calls, s.Burst, s.Per)
}

// askRate asks a rate's bucket. It counts in the units of [limits.Unit]: redis_rate
// gives whole numbers, and what is behind the point would be lost each time.
func (l *Limiter) askRate(ctx context.Context, key string, q limits.Question) (limits.Answer, error) {
	limit := redis_rate.Limit{Rate: q.Spec.Calls * limits.Unit, Burst: q.Spec.Burst * limits.Unit, Period: q.Spec.Per}
	ask := l.rates.AllowAtMost
	if q.Buy < 0 { // given back; the other would give as much as there is, but no less than nothing
		ask = l.rates.AllowN
	}
	r, err := ask(ctx, key, limit, int(q.Pay+q.Buy))
	if err != nil {
		return limits.Answer{}, fmt.Errorf("limits: ask redis for a rate: %w", err)
	}
	perUnit := q.Spec.Per.Seconds() / float64(limit.Rate)
	return limits.Answer{Given: int64(r.Allowed), Left: float64(limit.Burst) - r.ResetAfter.Seconds()/perUnit}, nil
}
