package tenant

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// tombstone is how long a revoked token stays listed, and is told from an
// unknown one.
const tombstone = 30 * 24 * time.Hour

// MaxTokens is how many tokens an app may have, those that are listed as expired
// or revoked among them.
const MaxTokens = 1 << 20

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
  if string.sub(expires, 1, 1) == '+' then expires = integer(tonumber(now) + tonumber(string.sub(expires, 2))) end
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

// token reads the token that a script returns first. It is not dead.
func (a answer) token(app, id string) (Token, error) {
	t, _, err := readToken(app, id, a.record(0), life{})
	return t, err
}

func (s *Store) checkScopesWithin(ctx context.Context, app string, scopes []string) error {
	if len(scopes) == 0 {
		return nil
	}
	apps, err := s.readApps(ctx, []string{app})
	if err != nil || len(apps) == 0 {
		return err
	}
	return checkWithin(scopes, apps[0].Scopes)
}

// Token reads a token. Errors: [ErrNoToken], [ErrInput].
func (s *Store) Token(ctx context.Context, app, id string) (Token, error) {
	if err := ValidateApp(app); err != nil {
		return Token{}, fmt.Errorf("read a token: %w", err)
	}
	if s.zrpc != nil {
		return s.zrpc.token(ctx, app, id)
	}
	if !validID(id) {
		return Token{}, fmt.Errorf("read %s: %w", tokenName(app, id), ErrNoToken)
	}
	stored, err := Load(ctx, s.rdb, s.keys, app, id)
	if err != nil {
		return Token{}, fmt.Errorf("read %s: %w", tokenName(app, id), err)
	}
	return stored.Token, nil
}

const changeScript = `
-- id, op, version, expires or '', fields and values
local key = KEYS[4]
local was = redis.call('HMGET', key, 'hash', 'op', 'version')
if not was[1] then return {'none'} end
if was[2] ~= ARGV[5] then
  if dead(key) then return {'dead'} end
  if ARGV[6] ~= '' and ARGV[6] ~= (was[3] or '0') then return {'conflict'} end
  redis.call('HSET', key, 'op', ARGV[5])
  redis.call('HINCRBY', key, 'version', 1)
  set(key, 8)
  if ARGV[7] ~= '' then
    redis.call('HSET', key, 'expires', ARGV[7])
    keep(key, ARGV[4], vanishes(ARGV[7]))
    prune()
  end
  tell()
end
return {'ok', redis.call('HGETALL', key)}`

// ChangeToken changes a token's record, and tells the gateways. A token that was
// revoked stays as it is. Errors: [ErrNoToken], [ErrReplaced], [ErrConflict],
// [ErrInput].
func (s *Store) ChangeToken(ctx context.Context, app, id string, c TokenChange) (Token, error) {
	t, err := s.changeToken(ctx, app, id, c)
	if err != nil {
		return Token{}, fmt.Errorf("change %s: %w", tokenName(app, id), err)
	}
	return t, nil
}

func (s *Store) changeToken(ctx context.Context, app, id string, c TokenChange) (Token, error) {
	if err := firstFault(ValidateApp(app), c.check(s.now()), s.own()); err != nil {
		return Token{}, err
	}
	if !validID(id) {
		return Token{}, ErrNoToken
	}
	if c.Scopes != nil {
		if err := s.checkScopesWithin(ctx, app, *c.Scopes); err != nil {
			return Token{}, err
		}
	}
	fields, err := c.changedFields()
	if err != nil {
		return Token{}, err
	}
	expires := ""
	if c.Expires != nil {
		if expires = formatInstant(*c.Expires); expires == "" {
			expires = "0"
		}
	}
	answer, err := s.run(ctx, changeScript, app, []string{id}, Message{KindChanged, app, id},
		append([]any{id, newOp(), formatInt(c.IfVersion), expires}, fields...)...)
	if err != nil {
		return Token{}, err
	}
	if err := answer.refusal(); err != nil {
		return Token{}, err
	}
	return answer.token(app, id)
}

// refusal is what the word of an answer about a token means; nil: it was done.
func (a answer) refusal() error {
	switch a.word {
	case "ok":
		return nil
	case "none":
		return ErrNoToken
	case "dead", "replaced":
		return ErrReplaced
	case "conflict":
		return ErrConflict
	case "many":
		return ErrTooMany
	default:
		return fmt.Errorf("the id is taken (%s)", a.word)
	}
}

const rotateScript = `
-- old id, new id, new hash, grace, end of what is revoked, most
local old, new = KEYS[4], KEYS[5]
local was = redis.call('HMGET', old, 'hash', 'created', 'expires', 'replaced_by')
local hash = redis.call('HGET', new, 'hash')
if hash and hash ~= ARGV[6] then return {'taken'} end
if not hash then
  if not was[1] then return {'none'} end
  if was[4] or dead(old) then return {'replaced'} end
  prune()
  if redis.call('ZCARD', ids) >= tonumber(ARGV[9]) then return {'many'} end
  local expires = '0'
  if was[3] and was[3] ~= '0' then expires = integer(tonumber(now) + tonumber(was[3]) - tonumber(was[2])) end
  redis.call('HSET', new, 'hash', ARGV[6], 'created', now, 'expires', expires, 'epoch', integer(epoch()), 'version', 1)
  for _, field in ipairs({'note', 'scopes', 'networks', 'limits'}) do
    local value = redis.call('HGET', old, field)
    if value then redis.call('HSET', new, field, value) end
  end
  keep(new, ARGV[5], vanishes(expires))
  redis.call('HSET', old, 'replaced_by', ARGV[5])
  if ARGV[7] == '0' then revoke(old, ARGV[4], now, ARGV[8])
  else
    redis.call('HINCRBY', old, 'version', 1)
    local finish = integer(tonumber(now) + tonumber(ARGV[7]))
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
	if !validID(id) {
		return Issued{}, ErrNoToken
	}
	text, token := NewToken()
	kind := KindChanged
	if grace < time.Millisecond {
		kind = KindRevoked
	}
	answer, err := s.run(ctx, rotateScript, app, []string{id, token.ID}, Message{kind, app, id},
		id, token.ID, hex.EncodeToString(token.hash[:]), grace.Milliseconds(), s.now().Add(tombstone).UnixMilli(), MaxTokens)
	if err != nil {
		return Issued{}, err
	}
	if err := answer.refusal(); err != nil {
		return Issued{}, err
	}
	made, err := answer.token(app, token.ID)
	return Issued{Secret: text, Token: made}, err
}

const revokeScript = `
-- id, end of what is revoked
evenIfFull()
local known = redis.call('EXISTS', KEYS[4])
if known == 1 and redis.call('HEXISTS', KEYS[4], 'revoked') == 0 then
  revoke(KEYS[4], ARGV[4], now, ARGV[5])
  prune()
end
tell()
return {known == 1 and 'ok' or 'none'}`

const revokeAllScript = `
-- op
evenIfFull()
local known = redis.call('HEXISTS', app, 'deleted') == 0 and redis.call('ZCOUNT', ends, now, '+inf') > 0
if known and redis.call('HGET', app, 'ended_by') ~= ARGV[4] then
  found(ARGV[4])
  redis.call('HINCRBY', app, 'epoch', 1)
  redis.call('HSET', app, 'revoked', now, 'ended_by', ARGV[4])
end
tell()
return {known and 'ok' or 'none'}`

// Revoke ends a token, or all tokens of app if id is "", and tells every
// gateway. All of an app's are dead by one atomic step (an app without a record
// gets one for it); then each of them is marked, page by page, for lists and so that it vanishes in the end. Revoking
// what is revoked tells the gateways again. Errors: [ErrNoToken], after they
// were told all the same, [ErrInput].
func (s *Store) Revoke(ctx context.Context, app, id string) error {
	if err := ValidateApp(app); err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	revoke := s.revoke
	switch {
	case s.zrpc != nil:
		revoke = s.zrpc.revoke
	case id == "":
		revoke = s.revokeAll
	}
	err := revoke(ctx, app, id)
	if err == nil {
		err = s.confirmed(ctx, app)
	}
	if err != nil {
		return fmt.Errorf("revoke %s: %w", tokenName(app, id), err)
	}
	return nil
}

func (s *Store) revoke(ctx context.Context, app, id string) error {
	if !validID(id) {
		return ErrNoToken
	}
	answer, err := s.run(ctx, revokeScript, app, []string{id}, Message{KindRevoked, app, id}, id, s.now().Add(tombstone).UnixMilli())
	if err != nil {
		return err
	}
	return answer.refusal()
}

func (s *Store) revokeAll(ctx context.Context, app, _ string) error {
	answer, err := s.run(ctx, revokeAllScript, app, nil, Message{Kind: KindRevoked, App: app}, newOp())
	if err != nil {
		return err
	}
	if err := answer.refusal(); err != nil {
		return err
	}
	if err := s.clean(ctx, app, markDead); err != nil {
		return fmt.Errorf("all are dead, but not all were marked so: %w", err)
	}
	return nil
}

// tokenName is for errors. What is not an id is left out: it may be a whole
// token, given by mistake.
func tokenName(app, id string) string {
	switch {
	case id == "":
		return "the tokens of " + appName(app)
	case !validID(id):
		return "a token of " + appName(app)
	default:
		return "token " + id + " of " + appName(app)
	}
}
