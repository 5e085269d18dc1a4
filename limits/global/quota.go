package global

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/limits"
)

// quotaScript counts calls against a quota: those that were made already, whatever
// there is left, and those that are bought, as far as there is. It returns how
// many were bought, and how many are counted now.
//
// KEYS[1] the counter; ARGV: made, to be bought (below zero: given back), the
// quota, and how many seconds the counter is kept.
const quotaScript = `
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
local made, buy, quota = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if buy > 0 then
  buy = math.max(0, math.min(buy, quota - used - made))
end
local now = math.max(0, used + made + buy)
if now ~= used then
  redis.call('SET', KEYS[1], string.format('%.0f', now), 'EX', ARGV[4])
end
return {buy, now}
`

// Counters outlive their periods, for what is paid late and for whoever looks.
const (
	keepDaily   = 3 * 24 * time.Hour
	keepMonthly = 35 * 24 * time.Hour
)

func newQuotaScript() *redis.Script { return redis.NewScript(quotaScript) }

// askQuota asks a counter. Quotas are counted in whole calls.
func (l *Limiter) askQuota(ctx context.Context, key limits.Key, period string, pay, buy int64, spec limits.Spec) (limits.Answer, error) {
	keep := keepDaily
	if key.Period == limits.Monthly {
		keep = keepMonthly
	}
	got, err := l.quotas.Run(ctx, l.rdb, []string{l.keys.Quota(key.App, period, of(key))},
		pay/limits.Unit, buy/limits.Unit, spec.Calls, int(keep.Seconds())).Int64Slice()
	if err != nil {
		return limits.Answer{}, fmt.Errorf("limits: ask redis for a quota: %w", err)
	}
	if len(got) != 2 {
		return limits.Answer{}, fmt.Errorf("limits: ask redis for a quota: %d numbers came", len(got))
	}
	return limits.Answer{Given: pay + got[0]*limits.Unit, Left: float64(int64(spec.Calls)-got[1]) * limits.Unit}, nil
}

// of is the end of a limit's keys.
func of(k limits.Key) string {
	switch k.Whose {
	case limits.OfToken:
		return "token:" + k.Name
	case limits.OfRoute:
		return "route:" + k.Name
	default:
		return "app"
	}
}

// periodOf tells which day or month it is, and when it ends, as time since start.
func (l *Limiter) periodOf(p limits.Period) func(time.Duration) (string, time.Duration) {
	return func(time.Duration) (string, time.Duration) {
		now := time.Now().UTC()
		name, ends := now.Format("20060102"), time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC)
		if p == limits.Monthly {
			name, ends = now.Format("200601"), time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		}
		return name, l.Now() + ends.Sub(now)
	}
}
