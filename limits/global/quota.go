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
// A question that no answer came to may have been acted on, and comes again with
// its number. It is counted once: the number of a gateway's last question stands
// in the counter's hash, with what was bought by it. Numbers of one gateway rise.
//
// KEYS[1] the counter, a hash; ARGV: made, to be bought (below zero: given back),
// the quota, how many seconds the counter is kept, the gateway's field, and the
// question's number.
const quotaScript = `
local had = redis.call('HMGET', KEYS[1], 'calls', ARGV[5])
local used = tonumber(had[1] or '0')
local made, buy, quota = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if had[2] then
  local number, bought = string.match(had[2], '^(%d+) (%-?%d+)$')
  if tonumber(number) >= tonumber(ARGV[6]) then
    return {tonumber(bought), used}
  end
end
if buy > 0 then
  buy = math.max(0, math.min(buy, quota - used - made))
end
local now = math.max(0, used + made + buy)
if now ~= used then
  redis.call('HSET', KEYS[1], 'calls', string.format('%.0f', now), ARGV[5], ARGV[6] .. ' ' .. string.format('%.0f', buy))
  if not had[1] then
    redis.call('EXPIRE', KEYS[1], ARGV[4])
  end
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
func (l *Limiter) askQuota(ctx context.Context, key limits.Key, period string, pay, buy int64, q limits.Question) (limits.Answer, error) {
	keep := keepDaily
	if key.Period == limits.Monthly {
		keep = keepMonthly
	}
	field := "asked:" + l.node
	if q.Settles { // it may overtake others, or they it
		field = "settled:" + l.node
	}
	got, err := l.quotas.Run(ctx, l.rdb, []string{l.keys.Quota(key.App, period, of(key))},
		pay/limits.Unit, buy/limits.Unit, q.Spec.Calls, int(keep.Seconds()), field, int64(q.At)).Int64Slice()
	if err != nil {
		return limits.Answer{}, fmt.Errorf("limits: ask redis for a quota: %w", err)
	}
	if len(got) != 2 {
		return limits.Answer{}, fmt.Errorf("limits: ask redis for a quota: %d numbers came", len(got))
	}
	return limits.Answer{Given: pay + got[0]*limits.Unit, Left: float64(int64(q.Spec.Calls)-got[1]) * limits.Unit}, nil
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
