package tenant

import (
	"context"
	"fmt"
)

const deleteAppScript = `
-- op
evenIfFull()
local was = redis.call('HMGET', app, 'created', 'deleted', 'epoch', 'version', 'ended_by')
if was[2] or was[5] == ARGV[4] then return {'ok'} end
if not was[1] and redis.call('ZCARD', ends) == 0 then return {'none'} end
redis.call('DEL', app)
redis.call('HSET', app, 'deleted', now, 'revoked', now, 'version', was[4] or '0', 'ended_by', ARGV[4],
  'epoch', integer(tonumber(was[3] or '0') + 1))
tell()
return {'ok'}`

const forgetAppScript = `
if redis.call('HEXISTS', app, 'deleted') == 0 or redis.call('ZCARD', ends) > 0 then return {'kept'} end
redis.call('DEL', app, ends, ids)
return {'gone'}`

// DeleteApp deletes an app. One atomic step makes all its tokens dead, and tells
// the gateways; then their records are removed page by page. An interrupted
// deletion is taken up by another DeleteApp. An app that is created, or a token
// that is issued, after the first step begins anew: of the old tokens none comes
// to life. Errors: [ErrNoApp], [ErrInput].
func (s *Store) DeleteApp(ctx context.Context, id string) error {
	err := s.deleteApp(ctx, id)
	if err == nil {
		err = s.confirmed(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", appName(id), err)
	}
	return nil
}

func (s *Store) deleteApp(ctx context.Context, id string) error {
	if err := firstFault(ValidateApp(id), s.own()); err != nil {
		return err
	}
	answer, err := s.run(ctx, deleteAppScript, id, nil, Message{Kind: KindRevoked, App: id}, newOp())
	if err != nil {
		return err
	}
	if answer.word == "none" {
		return ErrNoApp
	}
	if err := s.clean(ctx, id, removeDead); err != nil {
		return fmt.Errorf("its tokens are dead, but not all were removed: %w", err)
	}
	if answer, err = s.run(ctx, forgetAppScript, id, nil, Message{}); err != nil || answer.word != "gone" {
		return err // it has begun anew
	}
	if err := s.rdb.ZRem(ctx, s.keys.AppIDs(), id).Err(); err != nil {
		return err
	}
	if begun, err := s.rdb.Exists(ctx, s.keys.App(id), s.keys.IDs(id)).Result(); err != nil || begun == 0 {
		return err
	}
	return s.register(ctx, id)
}
