package tenant

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"
)

const rotateScript = `
-- old id, new id, new hash, grace, most
local old, new = KEYS[4], KEYS[5]
local was = redis.call('HMGET', old, 'hash', 'created', 'expires', 'replaced_by')
local hash = redis.call('HGET', new, 'hash')
if hash and hash ~= ARGV[6] then return {'taken'} end
if not hash then
  if not was[1] then return {'none'} end
  if was[4] or dead(old) then return {'replaced'} end
  prune()
  if redis.call('ZCARD', ids) >= tonumber(ARGV[8]) then return {'many'} end
  local expires = '0'
  if was[3] and was[3] ~= '0' then expires = later(tonumber(was[3]) - tonumber(was[2])) end
  redis.call('HSET', new, 'hash', ARGV[6], 'created', now, 'expires', expires, 'epoch', integer(epoch()), 'version', 1)
  for _, field in ipairs({'note', 'scopes', 'networks', 'limits'}) do
    local value = redis.call('HGET', old, field)
    if value then redis.call('HSET', new, field, value) end
  end
  keep(new, ARGV[5], vanishes(expires))
  redis.call('HSET', old, 'replaced_by', ARGV[5])
  if ARGV[7] == '0' then revoke(old, ARGV[4], now)
  else
    redis.call('HINCRBY', old, 'version', 1)
    local finish = later(tonumber(ARGV[7]))
    if was[3] == '0' or not was[3] or tonumber(was[3]) > tonumber(finish) then
      redis.call('HSET', old, 'expires', finish)
      keep(old, ARGV[4], vanishes(finish))
    end
  end
  prune()
  tell()
end
return {'ok', redis.call('HGETALL', new)}`

// Rotate issues a token in place of another, with its note, scopes, networks and
// limits, and the time to live it was given. The old one is valid for another
// grace, at most, and is revoked at once if that is 0. Errors: [ErrNoToken],
// [ErrReplaced], [ErrTooMany], [ErrInput].
func (s *Store) Rotate(ctx context.Context, app, id string, grace time.Duration) (Issued, error) {
	if err := ValidateApp(app); err != nil {
		return Issued{}, fmt.Errorf("rotate a token: %w", err)
	}
	if grace < 0 {
		return Issued{}, fmt.Errorf("rotate a token: %w", &InputError{"grace", fmt.Sprintf("the grace is %s, below zero", grace)})
	}
	rotate := s.rotate
	if s.zrpc != nil {
		rotate = s.zrpc.rotate
	}
	issued, err := rotate(ctx, app, id, grace)
	if err != nil {
		return Issued{}, fmt.Errorf("rotate %s: %w", tokenName(app, id), err)
	}
	return issued, nil
}

func (s *Store) rotate(ctx context.Context, app, id string, grace time.Duration) (Issued, error) {
	if !ValidID(id) {
		return Issued{}, ErrNoToken
	}
	text, token := NewToken()
	kind := KindChanged
	if grace < time.Millisecond {
		kind = KindRevoked
	}
	answer, err := s.run(ctx, rotateScript, app, []string{id, token.ID}, Message{kind, app, id},
		id, token.ID, hex.EncodeToString(token.hash[:]), grace.Milliseconds(), MaxTokens)
	if err != nil {
		return Issued{}, err
	}
	if err := answer.refusal(); err != nil {
		return Issued{}, err
	}
	made, err := answer.token(app, token.ID)
	return Issued{Secret: text, Token: made}, err
}
