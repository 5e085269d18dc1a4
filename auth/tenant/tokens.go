package tenant

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// tombstone is how long a revoked token stays listed, and is told from an
// unknown one.
const tombstone = 30 * 24 * time.Hour

// An expired token stays listed for a day, in which it is told from an unknown
// one: "expired" is something that its owner can act on. It is the 86400000 of
// the scripts.

// hashedStore keeps rpcgate's own layout; see Keys.
type hashedStore struct {
	rdb  redis.UniversalClient
	keys Keys
}

// The index of an app ends with its last token. KEYS[1] is the index, ARGV[1]
// the time now. Prepended to the scripts that change an index.
const pruneIndex = `
local function prune()
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[1])
  local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
  if not last[1] then return end
  if last[2] == 'inf' then redis.call('PERSIST', KEYS[1])
  else redis.call('PEXPIREAT', KEYS[1], last[2]) end
end
local function keepUntil(key, id, ms)
  local at = string.format('%.0f', ms)
  redis.call('PEXPIREAT', key, at)
  redis.call('ZADD', KEYS[1], at, id)
end
local function put(key, id, hash, created, expires, note)
  redis.call('HSET', key, 'hash', hash, 'created', created, 'expires', expires, 'note', note)
  if expires == '0' then redis.call('ZADD', KEYS[1], '+inf', id)
  else
    keepUntil(key, id, tonumber(expires) + 86400000)
  end
end
local function revoke(key, id, keep)
  redis.call('HSET', key, 'revoked', ARGV[1])
  local score = redis.call('ZSCORE', KEYS[1], id)
  if not score or score == 'inf' or tonumber(score) > tonumber(keep) then
    keepUntil(key, id, tonumber(keep))
  end
end
`

// Scripts are values of go-redis that never change; the functions keep them
// from being variables.

func issueScript() *redis.Script {
	return redis.NewScript(pruneIndex + `
-- KEYS: index, token. ARGV: now, id, hash, expires, note.
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
put(KEYS[2], ARGV[2], ARGV[3], ARGV[1], ARGV[4], ARGV[5])
prune()
return 1`)
}

func revokeScript() *redis.Script {
	return redis.NewScript(pruneIndex + `
-- KEYS: index, token. ARGV: now, id, end of the tombstone, channel, message.
local known = redis.call('EXISTS', KEYS[2])
if known == 1 and redis.call('HEXISTS', KEYS[2], 'revoked') == 0 then
  revoke(KEYS[2], ARGV[2], ARGV[3])
  prune()
end
redis.call('PUBLISH', ARGV[4], ARGV[5])
return known`)
}

func rotateScript() *redis.Script {
	return redis.NewScript(pruneIndex + `
-- KEYS: index, old token, new token.
-- ARGV: now, old id, new id, new hash, grace, end of the tombstone, channel, message.
local old = redis.call('HMGET', KEYS[2], 'hash', 'created', 'expires', 'note', 'revoked', 'replaced_by')
if not old[1] then return {'none'} end
if old[5] or old[6] then return {'replaced'} end
if redis.call('EXISTS', KEYS[3]) == 1 then return {'taken'} end
local now, expires = tonumber(ARGV[1]), '0'
if old[3] and old[3] ~= '0' then
  expires = string.format('%.0f', now + tonumber(old[3]) - tonumber(old[2]))
end
put(KEYS[3], ARGV[3], ARGV[4], ARGV[1], expires, old[4] or '')
redis.call('HSET', KEYS[2], 'replaced_by', ARGV[3])
if ARGV[5] == '0' then revoke(KEYS[2], ARGV[2], ARGV[6])
else
  local finish = string.format('%.0f', now + tonumber(ARGV[5]))
  if old[3] == '0' or not old[3] or tonumber(old[3]) > tonumber(finish) then
    redis.call('HSET', KEYS[2], 'expires', finish)
    keepUntil(KEYS[2], ARGV[2], tonumber(finish) + 86400000)
  end
end
prune()
redis.call('PUBLISH', ARGV[7], ARGV[8])
return {'ok', expires, old[4] or ''}`)
}

func (s hashedStore) issue(ctx context.Context, o IssueOptions) (Issued, error) {
	text, token := NewToken()
	now := time.Now()
	info := Token{App: o.App, ID: token.ID, Note: o.Note, Created: milli(now)}
	expires := int64(0)
	if o.TTL > 0 {
		info.Expires = milli(now.Add(o.TTL))
		expires = info.Expires.UnixMilli()
	}
	// The set of apps lies in a slot of its own, so it comes first: an app
	// without a token is harmless there, a token that is not listed is not.
	if err := s.rdb.SAdd(ctx, s.keys.Apps(), o.App).Err(); err != nil {
		return Issued{}, err
	}
	made, err := issueScript().Run(ctx, s.rdb,
		[]string{s.keys.Tokens(o.App), s.keys.Token(o.App, token.ID)},
		now.UnixMilli(), token.ID, hex.EncodeToString(token.hash[:]), expires, o.Note).Bool()
	if err != nil {
		return Issued{}, err
	}
	if !made {
		return Issued{}, fmt.Errorf("the id %s is taken", token.ID)
	}
	return Issued{Secret: text, Token: info}, nil
}

func (s hashedStore) revoke(ctx context.Context, app, id string) error {
	if id == "" {
		return s.revokeAll(ctx, app)
	}
	if !validID(id) {
		return ErrNoToken
	}
	known, err := s.revokeOne(ctx, app, id)
	if err == nil && !known {
		err = ErrNoToken
	}
	return err
}

func (s hashedStore) revokeOne(ctx context.Context, app, id string) (known bool, err error) {
	now := time.Now()
	return revokeScript().Run(ctx, s.rdb,
		[]string{s.keys.Tokens(app), s.keys.Token(app, id)},
		now.UnixMilli(), id, now.Add(tombstone).UnixMilli(),
		s.keys.Revocations(), Message{KindRevoked, app, id}.String()).Bool()
}

// revokeAll revokes token by token, and in the end tells of the whole app.
func (s hashedStore) revokeAll(ctx context.Context, app string) error {
	ids, err := s.rdb.ZRange(ctx, s.keys.Tokens(app), 0, -1).Result()
	if err != nil {
		return err
	}
	found := false
	for _, id := range ids {
		known, err := s.revokeOne(ctx, app, id)
		if err != nil {
			return err
		}
		found = found || known
	}
	if err := s.rdb.Publish(ctx, s.keys.Revocations(), Message{Kind: KindRevoked, App: app}.String()).Err(); err != nil {
		return err
	}
	if !found {
		return ErrNoToken
	}
	return nil
}

func (s hashedStore) rotate(ctx context.Context, app, id string, grace time.Duration) (Issued, error) {
	if !validID(id) {
		return Issued{}, ErrNoToken
	}
	text, token := NewToken()
	now := time.Now()
	kind := KindChanged
	if grace < time.Millisecond {
		kind = KindRevoked
	}
	answer, err := rotateScript().Run(ctx, s.rdb,
		[]string{s.keys.Tokens(app), s.keys.Token(app, id), s.keys.Token(app, token.ID)},
		now.UnixMilli(), id, token.ID, hex.EncodeToString(token.hash[:]), grace.Milliseconds(),
		now.Add(tombstone).UnixMilli(), s.keys.Revocations(), Message{kind, app, id}.String()).StringSlice()
	if err != nil {
		return Issued{}, err
	}
	switch answer[0] {
	case "ok":
	case "none":
		return Issued{}, ErrNoToken
	case "replaced":
		return Issued{}, ErrReplaced
	default:
		return Issued{}, fmt.Errorf("the id %s is taken", token.ID)
	}
	info := Token{App: app, ID: token.ID, Note: answer[2], Created: milli(now)}
	if info.Expires, err = instant(answer[1]); err != nil {
		return Issued{}, fmt.Errorf("expires: %w", err)
	}
	return Issued{Secret: text, Token: info}, nil
}

func (s hashedStore) list(ctx context.Context, app string) ([]Token, error) {
	apps := []string{app}
	if app == "" {
		var err error
		if apps, err = s.rdb.SMembers(ctx, s.keys.Apps()).Result(); err != nil {
			return nil, err
		}
	}
	var all []Token
	for _, app := range apps {
		tokens, err := s.listApp(ctx, app)
		if err != nil {
			return nil, fmt.Errorf("app %s: %w", app, err)
		}
		all = append(all, tokens...)
	}
	slices.SortFunc(all, func(a, b Token) int {
		return cmp.Or(cmp.Compare(a.App, b.App), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

func (s hashedStore) listApp(ctx context.Context, app string) ([]Token, error) {
	// Without those that Redis keeps no longer.
	ids, err := s.rdb.ZRangeByScore(ctx, s.keys.Tokens(app), &redis.ZRangeBy{
		Min: strconv.FormatInt(time.Now().UnixMilli(), 10), Max: "+inf",
	}).Result()
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	cmds := make([]*redis.SliceCmd, len(ids))
	if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			cmds[i] = p.HMGet(ctx, s.keys.Token(app, id), "created", "expires", "note", "revoked", "replaced_by")
		}
		return nil
	}); err != nil {
		return nil, err
	}
	var tokens []Token
	for i, cmd := range cmds {
		v := cmd.Val()
		if v[0] == nil {
			continue // gone since the index was read
		}
		t := Token{App: app, ID: ids[i]}
		var errs [3]error
		t.Created, errs[0] = instant(v[0])
		t.Expires, errs[1] = instant(v[1])
		t.Revoked, errs[2] = instant(v[3])
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("token %s: %w", ids[i], err)
		}
		t.Note, _ = v[2].(string)
		t.ReplacedBy, _ = v[4].(string)
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// milli cuts t to what Redis keeps of it.
func milli(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// instant reads Unix milliseconds; absent and "0" are the zero time.
func instant(v any) (time.Time, error) {
	s, _ := v.(string)
	if s == "" || s == "0" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("not a number of milliseconds")
	}
	return time.UnixMilli(ms).UTC(), nil
}
