package tenant

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
)

const issueScript = `
-- id, hash, end ('0': never; '+' and the time to live), most, fields and values
local key = KEYS[4]
local hash = redis.call('HGET', key, 'hash')
if hash and hash ~= ARGV[5] then return {'taken'} end
local new = 0
if not hash then
  prune()
  if redis.call('ZCARD', ids) >= tonumber(ARGV[7]) then return {'many'} end
end
if found(ARGV[5]) then new = 1 end
if not hash then
  local expires = ARGV[6]
  if string.sub(expires, 1, 1) == '+' then expires = later(tonumber(string.sub(expires, 2))) end
  redis.call('HSET', key, 'hash', ARGV[5], 'created', now, 'expires', expires, 'epoch', integer(epoch()), 'version', 1)
  set(key, 8)
  keep(key, ARGV[4], vanishes(expires))
  prune()
end
return {'ok', redis.call('HGETALL', key), new}`

// Issue makes a new token for an app, and a record for an app that has none.
// Scopes that allow nothing of what the app's allow are refused. Errors:
// [ErrInput], [ErrTooMany].
func (s *Store) Issue(ctx context.Context, o IssueOptions) (Issued, error) {
	if err := o.check(); err != nil {
		return Issued{}, fmt.Errorf("issue a token: %w", err)
	}
	issue := s.issue
	if s.zrpc != nil {
		issue = s.zrpc.issue
	}
	issued, err := issue(ctx, o)
	if err != nil {
		return Issued{}, fmt.Errorf("issue a token for app %s: %w", o.App, err)
	}
	return issued, nil
}

func (s *Store) issue(ctx context.Context, o IssueOptions) (Issued, error) {
	if err := s.checkScopesWithin(ctx, o.App, o.Scopes); err != nil {
		return Issued{}, err
	}
	fields, err := terms(o.Scopes, o.Networks, o.Limits, o.Note)
	if err != nil {
		return Issued{}, err
	}
	if s.now().Add(o.TTL).After(latest()) || o.Expires.After(latest()) {
		return Issued{}, &InputError{"ttl", "the token would expire after the year 9999"}
	}
	text, token := NewToken()
	if err := s.register(ctx, o.App); err != nil {
		return Issued{}, err
	}
	answer, err := s.run(ctx, issueScript, o.App, []string{token.ID}, Message{},
		append([]any{token.ID, hex.EncodeToString(token.hash[:]), o.end(), MaxTokens}, fields...)...)
	if err != nil {
		return Issued{}, err
	}
	switch answer.word {
	case "many":
		return Issued{}, ErrTooMany
	case "taken":
		return Issued{}, fmt.Errorf("the id %s is taken", token.ID)
	}
	made, err := answer.token(o.App, token.ID)
	if err != nil {
		return Issued{}, err
	}
	return Issued{Secret: text, Token: made, NewApp: answer.number(1) == 1}, s.register(ctx, o.App)
}

// end is when the token ends, as the script takes it.
func (o IssueOptions) end() string {
	switch {
	case !o.Expires.IsZero():
		return strconv.FormatInt(o.Expires.UnixMilli(), 10)
	case o.TTL > 0:
		return "+" + strconv.FormatInt(o.TTL.Milliseconds(), 10)
	}
	return "0"
}
