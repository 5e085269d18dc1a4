package tenant

import (
	"context"
	"fmt"
)

const revokeScript = `
-- id
evenIfFull()
local known = redis.call('EXISTS', KEYS[4])
if known == 1 and redis.call('HEXISTS', KEYS[4], 'revoked') == 0 then
  revoke(KEYS[4], ARGV[4], now)
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
// gets one for it); then each of them is marked, page by page, for lists and so
// that it vanishes in the end. Revoking what is revoked tells the gateways again.
// Errors: [ErrNoToken], after they were told all the same, [ErrUnconfirmed],
// [ErrInput].
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
	if !ValidID(id) {
		return ErrNoToken
	}
	answer, err := s.run(ctx, revokeScript, app, []string{id}, Message{KindRevoked, app, id}, id)
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
