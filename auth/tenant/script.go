package tenant

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Each change is a script on the slot of one app: Redis runs it whole or not at
// all, and nothing in between. What it publishes, it publishes in the same step.
//
// go-redis may send a script twice, when a connection breaks before the answer.
// So each change carries something that is of this one call alone (a new hash,
// or a number drawn for it, kept in the record as op), by which the second run
// knows the first one's work, and answers for it.
//
// Keys and arguments that all scripts begin with:
//
//	KEYS  index by end, index by id, app, then tokens
//	ARGV  how long what is revoked stays listed, channel, message
//
// Instants are Unix milliseconds by Redis' own clock: by that of an operator's
// machine, which may be far off, tokens would leave the indexes that are alive,
// and outlive their app. What an argument does not say is ”. An answer is a
// word, and a record in most cases.
const prelude = `
local ends, ids, app = KEYS[1], KEYS[2], KEYS[3]
local tombstone, channel, message = ARGV[1], ARGV[2], ARGV[3]

local function epoch() return tonumber(redis.call('HGET', app, 'epoch') or '0') end
local function tell() redis.call('PUBLISH', channel, message) end
local function integer(n) return string.format('%.0f', n) end

local clock = redis.call('TIME')
local now = integer(clock[1] * 1000 + math.floor(clock[2] / 1000))

-- The instant so much later: not after the year 9999, nor before now.
local function later(ms) return integer(math.min(now + math.max(ms, 0), 253402300799000)) end

-- Lets a script that takes something away run in a Redis that is full. That
-- refuses what may need memory, but not in the middle of a script, once that has
-- written: here, by removing what is not there.
local function evenIfFull() redis.call('HDEL', app, '') end

-- The fields and values from ARGV[from] on; an empty one is none.
local function set(key, from)
  for i = from, #ARGV, 2 do
    if ARGV[i+1] == '' then redis.call('HDEL', key, ARGV[i])
    else redis.call('HSET', key, ARGV[i], ARGV[i+1]) end
  end
end

-- A token vanishes at ms (+inf: never), and is listed until then.
local function keep(key, id, ms)
  if ms == '+inf' then redis.call('PERSIST', key) else redis.call('PEXPIREAT', key, ms) end
  redis.call('ZADD', ends, ms, id)
  redis.call('ZADD', ids, 0, id)
end
local function drop(key, id)
  redis.call('DEL', key)
  redis.call('ZREM', ends, id)
  redis.call('ZREM', ids, id)
end

-- When a token vanishes whose validity ends so: a day later, so that its owner
-- is told that it has expired.
local function vanishes(expires)
  if not expires or expires == '' or expires == '0' then return '+inf' end
  return integer(tonumber(expires) + 86400000)
end

-- Leaves the indexes without what has vanished, a bounded piece at a time, and
-- ends them with the last token. A large one does not end by itself: Redis would
-- take its time for that, and everybody's.
local function prune()
  local gone = redis.call('ZRANGEBYSCORE', ends, '-inf', '(' .. now, 'LIMIT', 0, 100)
  if #gone > 0 then
    redis.call('ZREM', ends, unpack(gone))
    redis.call('ZREM', ids, unpack(gone))
  end
  local last = redis.call('ZRANGE', ends, -1, -1, 'WITHSCORES')
  if not last[1] then return end
  for _, key in ipairs({ends, ids}) do
    if last[2] == 'inf' or redis.call('ZCARD', ends) > 1000 then redis.call('PERSIST', key)
    else redis.call('PEXPIREAT', key, integer(tonumber(last[2]))) end
  end
end

-- Tells whether a token is revoked, by itself or with all of its app's.
local function dead(key)
  local t = redis.call('HMGET', key, 'revoked', 'epoch')
  return t[1] or tonumber(t[2] or '0') < epoch()
end

-- Marks a token as revoked at an instant, and keeps it for a while at most.
local function revoke(key, id, at)
  local finish = later(tombstone)
  redis.call('HSET', key, 'revoked', at)
  redis.call('HINCRBY', key, 'version', 1)
  local score = redis.call('ZSCORE', ends, id)
  if not score or score == 'inf' or tonumber(score) > tonumber(finish) then keep(key, id, finish) end
end

-- Gives an app without a record one.
local function found(op)
  if redis.call('HEXISTS', app, 'created') == 1 then return redis.call('HGET', app, 'op') == op end
  redis.call('HDEL', app, 'deleted')
  redis.call('HSET', app, 'created', now, 'updated', now, 'op', op, 'status', 'active')
  redis.call('HINCRBY', app, 'version', 1)
  return true
end
`

// script is one of the changes. It never changes itself: the functions that make
// them keep them from being variables.
func script(body string) *redis.Script { return redis.NewScript(prelude + body) }

// answer is what a script returns: a word, and what else it says.
type answer struct {
	word string
	rest []any
}

// run runs a script on an app and the tokens with ids.
func (s *Store) run(ctx context.Context, body, app string, ids []string, m Message, args ...any) (answer, error) {
	keys := make([]string, 0, 3+len(ids))
	keys = append(keys, s.keys.Tokens(app), s.keys.IDs(app), s.keys.App(app))
	for _, id := range ids {
		keys = append(keys, s.keys.Token(app, id))
	}
	argv := append([]any{tombstone.Milliseconds(), s.keys.Revocations(), m.String()}, args...)
	values, err := script(body).Run(ctx, s.rdb, keys, argv...).Slice()
	if err != nil {
		return answer{}, err
	}
	word, ok := values[0].(string)
	if !ok {
		return answer{}, fmt.Errorf("a script answers %T", values[0])
	}
	return answer{word, values[1:]}, nil
}

// record reads a hash that a script returns as its i-th value after the word.
func (a answer) record(i int) map[string]string {
	if i >= len(a.rest) {
		return nil
	}
	flat, _ := a.rest[i].([]any)
	fields := make(map[string]string, len(flat)/2)
	for ; len(flat) >= 2; flat = flat[2:] {
		name, _ := flat[0].(string)
		fields[name], _ = flat[1].(string)
	}
	return fields
}

// number reads a number that a script returns as its i-th value after the word.
func (a answer) number(i int) int64 {
	if i >= len(a.rest) {
		return 0
	}
	n, _ := a.rest[i].(int64)
	return n
}
