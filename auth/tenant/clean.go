package tenant

import "context"

// What becomes of the tokens that all of their app's were revoked with, or that
// were deleted with their app. They are dead by their epoch alone; this is so
// that they do not stay in Redis for ever.
const (
	// ids
	markDead = `
evenIfFull()
local revoked = redis.call('HGET', app, 'revoked')
for i = 4, #ARGV do
  local key = KEYS[i]
  local t = redis.call('HMGET', key, 'hash', 'epoch', 'revoked')
  if t[1] and not t[3] and tonumber(t[2] or '0') < epoch() then revoke(key, ARGV[i], revoked) end
end
prune()
return {'ok'}`

	removeDead = `
for i = 4, #ARGV do
  if tonumber(redis.call('HGET', KEYS[i], 'epoch') or '0') < epoch() then drop(KEYS[i], ARGV[i]) end
end
prune()
return {'ok'}`
)

// clean runs one of the above over an app's tokens, page by page.
func (s *Store) clean(ctx context.Context, app, body string) error {
	if err := s.adopt(ctx, app); err != nil {
		return err
	}
	for cursor := ""; ; {
		ids, err := s.rdb.ZRangeByLex(ctx, s.keys.IDs(app), after(cursor, batch)).Result()
		if err != nil || len(ids) == 0 {
			return err
		}
		args := make([]any, 0, len(ids))
		for _, id := range ids {
			args = append(args, id)
		}
		if _, err := s.run(ctx, body, app, ids, Message{}, args...); err != nil {
			return err
		}
		if len(ids) < batch {
			return nil
		}
		cursor = ids[len(ids)-1]
	}
}
