package tenant

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

const createAppScript = `
-- op, fields and values
local was = redis.call('HMGET', app, 'created', 'op')
if was[1] and was[2] ~= ARGV[4] then return {'exists'} end
if not was[1] then
  found(ARGV[4])
  set(app, 5)
  tell()
end
return {'ok', redis.call('HGETALL', app)}`

// CreateApp makes an app's record. Its times and version are ignored, and no
// status is [Active]. An app that had tokens before keeps them. Errors:
// [ErrAppExists], [ErrInput].
func (s *Store) CreateApp(ctx context.Context, a App) (App, error) {
	if a.Status == "" {
		a.Status = Active
	}
	made, err := s.createApp(ctx, a)
	if err != nil {
		return App{}, fmt.Errorf("create %s: %w", appName(a.ID), err)
	}
	return made, nil
}

func (s *Store) createApp(ctx context.Context, a App) (App, error) {
	if err := firstFault(a.check(), s.own()); err != nil {
		return App{}, err
	}
	fields, err := appFields(a)
	if err != nil {
		return App{}, err
	}
	if err := s.register(ctx, a.ID); err != nil {
		return App{}, err
	}
	m := Message{Kind: KindChanged, App: a.ID}
	if a.Status == Suspended {
		m.Kind = KindRevoked
	}
	answer, err := s.run(ctx, createAppScript, a.ID, nil, m, append([]any{newOp()}, fields...)...)
	if err != nil {
		return App{}, err
	}
	if answer.word == "exists" {
		return App{}, ErrAppExists
	}
	made, _, _, err := readApp(a.ID, answer.record(0))
	if err != nil {
		return App{}, err
	}
	return made, s.register(ctx, a.ID)
}

// App reads an app. One that has tokens but no record is active, and may do
// everything; its Created is zero. Errors: [ErrNoApp], [ErrInput].
func (s *Store) App(ctx context.Context, id string) (App, error) {
	if err := ValidateApp(id); err != nil {
		return App{}, fmt.Errorf("read an app: %w", err)
	}
	if s.zrpc != nil {
		return s.zrpc.app(ctx, id)
	}
	found, err := s.readApps(ctx, []string{id})
	if err != nil {
		return App{}, fmt.Errorf("read app %s: %w", id, err)
	}
	if len(found) == 0 {
		return App{}, fmt.Errorf("app %s: %w", id, ErrNoApp)
	}
	return found[0].App, nil
}

// appWithLife is an app, and what its tokens depend on.
type appWithLife struct {
	App
	life
	known bool // has a record
}

// readApps reads those of the apps that are there, in one round trip to each
// node.
func (s *Store) readApps(ctx context.Context, ids []string) ([]appWithLife, error) {
	now := formatInt(s.now().UnixMilli())
	records := make([]*redis.MapStringStringCmd, len(ids))
	tokens := make([]*redis.IntCmd, len(ids))
	if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			records[i] = p.HGetAll(ctx, s.keys.App(id))
			tokens[i] = p.ZCount(ctx, s.keys.Tokens(id), now, "+inf")
		}
		return nil
	}); err != nil {
		return nil, err
	}
	apps := make([]appWithLife, 0, len(ids))
	for i, id := range ids {
		fields := records[i].Val()
		a, l, known, err := readApp(id, fields)
		if err != nil {
			return nil, err
		}
		if known || tokens[i].Val() > 0 && fields["deleted"] == "" {
			apps = append(apps, appWithLife{a, l, known})
		}
	}
	return apps, nil
}

// Apps reads a page of apps by their ids, of n at most, from cursor on: "" at
// first, and then the next of the page before, which is "" at the end. A page
// may be short, or empty, before that. An app that is there throughout comes
// exactly once (in the layout gozero: at least once, in no order).
func (s *Store) Apps(ctx context.Context, cursor string, n int) (page []App, next string, err error) {
	if s.zrpc != nil {
		return s.zrpc.apps(ctx, cursor, pageSize(n))
	}
	found, next, err := s.pageOfApps(ctx, cursor, pageSize(n))
	if err != nil {
		return nil, "", fmt.Errorf("list apps: %w", err)
	}
	for _, a := range found {
		page = append(page, a.App)
	}
	return page, next, nil
}

func (s *Store) pageOfApps(ctx context.Context, cursor string, n int) (page []appWithLife, next string, err error) {
	ids, err := s.appIDs(ctx, cursor, n)
	if err != nil || len(ids) == 0 {
		return nil, "", err
	}
	if len(ids) == n {
		next = ids[n-1]
	}
	page, err = s.readApps(ctx, ids)
	return page, next, err
}

const changeAppScript = `
-- op, version, fields and values
local was = redis.call('HMGET', app, 'created', 'op', 'version', 'deleted')
if not was[1] and (was[4] or redis.call('ZCOUNT', ends, now, '+inf') == 0) then return {'none'} end
if was[2] ~= ARGV[4] then
  if string.sub(message, 1, 7) == 'revoked' then evenIfFull() end
  if ARGV[5] ~= '' and ARGV[5] ~= (was[3] or '0') then return {'conflict'} end
  if not found(ARGV[4]) then
    redis.call('HSET', app, 'updated', now, 'op', ARGV[4])
    redis.call('HINCRBY', app, 'version', 1)
  end
  set(app, 6)
  tell()
end
return {'ok', redis.call('HGETALL', app)}`

// ChangeApp changes an app's record, and makes one for an app that has only
// tokens. The gateways are told; what is suspended is told as revoked. Errors:
// [ErrNoApp], [ErrConflict], [ErrInput].
func (s *Store) ChangeApp(ctx context.Context, id string, c AppChange) (App, error) {
	changed, err := s.changeApp(ctx, id, c)
	if err == nil && c.Status != nil && *c.Status == Suspended {
		err = s.confirmed(ctx, id)
	}
	if err != nil {
		return App{}, fmt.Errorf("change %s: %w", appName(id), err)
	}
	return changed, nil
}

func (s *Store) changeApp(ctx context.Context, id string, c AppChange) (App, error) {
	if err := firstFault(ValidateApp(id), c.check(), s.own()); err != nil {
		return App{}, err
	}
	fields, err := c.changedFields()
	if err != nil {
		return App{}, err
	}
	m := Message{Kind: KindChanged, App: id}
	if c.Status != nil && *c.Status == Suspended {
		m.Kind = KindRevoked
	}
	answer, err := s.run(ctx, changeAppScript, id, nil, m, append([]any{newOp(), formatInt(c.IfVersion)}, fields...)...)
	if err != nil {
		return App{}, err
	}
	switch answer.word {
	case "none":
		return App{}, ErrNoApp
	case "conflict":
		return App{}, ErrConflict
	}
	changed, _, _, err := readApp(id, answer.record(0))
	return changed, err
}

// appName is for errors. What is not an id is left out: it may be anything.
func appName(id string) string {
	if AppFault(id) != "" {
		return "an app"
	}
	return "app " + id
}
