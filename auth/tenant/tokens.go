package tenant

import (
	"context"
	"fmt"
	"time"
)

// tombstone is how long a revoked token stays listed, and is told from an
// unknown one.
const tombstone = 30 * 24 * time.Hour

// MaxTokens is how many tokens an app may have, those that are listed as expired
// or revoked among them.
const MaxTokens = 1 << 20

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
	if !ValidID(id) {
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
	if !ValidID(id) {
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

// tokenName is for errors. What is not an id is left out: it may be a whole
// token, given by mistake.
func tokenName(app, id string) string {
	switch {
	case id == "":
		return "the tokens of " + appName(app)
	case !ValidID(id):
		return "a token of " + appName(app)
	default:
		return "token " + id + " of " + appName(app)
	}
}
