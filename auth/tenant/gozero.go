package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/config"
)

// goZeroStore keeps zRPC's layout: one hash, app to token, in plain text.
type goZeroStore struct {
	rdb     redis.UniversalClient
	key     string
	channel string
}

// goZeroIssueScript may run twice, see script.go.
func goZeroIssueScript() *redis.Script {
	return redis.NewScript(`
-- KEYS: hash. ARGV: app, new token.
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then return 1 end
return redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] and 1 or 0`)
}

func goZeroReplaceScript() *redis.Script {
	return redis.NewScript(`
-- KEYS: hash. ARGV: app, new token or '' for none, channel, message.
local known = redis.call('HEXISTS', KEYS[1], ARGV[1])
if known == 1 then
  if ARGV[2] == '' then redis.call('HDEL', KEYS[1], ARGV[1])
  else redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
end
if known == 1 or ARGV[2] == '' then redis.call('PUBLISH', ARGV[3], ARGV[4]) end
return known`)
}

func (s goZeroStore) issue(ctx context.Context, o IssueOptions) (Issued, error) {
	if o.Note != "" || o.TTL != 0 || !o.Expires.IsZero() || len(o.Scopes) > 0 || len(o.Networks) > 0 || o.Limits != (config.Limits{}) {
		return Issued{}, fmt.Errorf("%w: it keeps nothing of a token but the secret", ErrLayout)
	}
	text, _ := NewToken()
	made, err := goZeroIssueScript().Run(ctx, s.rdb, []string{s.key}, o.App, text).Bool()
	if err != nil {
		return Issued{}, err
	}
	if !made {
		return Issued{}, fmt.Errorf("%w: the app has a token already, and may have only one; rotate it", ErrLayout)
	}
	return Issued{Secret: text, Token: Token{App: o.App}}, nil
}

func (s goZeroStore) revoke(ctx context.Context, app, id string) error {
	return s.replace(ctx, app, id, "")
}

func (s goZeroStore) rotate(ctx context.Context, app, id string, grace time.Duration) (Issued, error) {
	if grace != 0 {
		return Issued{}, fmt.Errorf("%w: it cannot keep the old token for a grace; give 0", ErrLayout)
	}
	text, _ := NewToken()
	if err := s.replace(ctx, app, id, text); err != nil {
		return Issued{}, err
	}
	return Issued{Secret: text, Token: Token{App: app}}, nil
}

// replace puts text in the place of app's token, or nothing if it is "".
func (s goZeroStore) replace(ctx context.Context, app, id, text string) error {
	if id != "" {
		return fmt.Errorf("%w: its tokens have no ids; give none", ErrLayout)
	}
	known, err := goZeroReplaceScript().Run(ctx, s.rdb, []string{s.key},
		app, text, s.channel, Message{Kind: KindRevoked, App: app}.String()).Bool()
	if err == nil && !known {
		err = ErrNoToken
	}
	return err
}

// app is an active app for one that has a token.
func (s goZeroStore) app(ctx context.Context, id string) (App, error) {
	found, err := s.rdb.HExists(ctx, s.key, id).Result()
	if err == nil && !found {
		err = ErrNoApp
	}
	if err != nil {
		return App{}, fmt.Errorf("read app %s: %w", id, err)
	}
	return App{ID: id, Status: Active}, nil
}

func (s goZeroStore) apps(ctx context.Context, cursor string, n int) (page []App, next string, err error) {
	ids, next, err := s.scan(ctx, cursor, n)
	if err != nil {
		return nil, "", fmt.Errorf("list apps: %w", err)
	}
	for _, id := range ids {
		page = append(page, App{ID: id, Status: Active})
	}
	return page, next, nil
}

func (s goZeroStore) token(ctx context.Context, app, id string) (Token, error) {
	if id != "" {
		return Token{}, fmt.Errorf("read a token: %w: its tokens have no ids; give none", ErrLayout)
	}
	found, err := s.rdb.HExists(ctx, s.key, app).Result()
	if err == nil && !found {
		err = ErrNoToken
	}
	if err != nil {
		return Token{}, fmt.Errorf("read the token of app %s: %w", app, err)
	}
	return Token{App: app}, nil
}

func (s goZeroStore) tokens(ctx context.Context, app, cursor string, n int) (page []Token, next string, err error) {
	if app != "" {
		t, err := s.token(ctx, app, "")
		if errors.Is(err, ErrNoToken) {
			return nil, "", nil
		}
		return []Token{t}, "", err
	}
	ids, next, err := s.scan(ctx, cursor, n)
	if err != nil {
		return nil, "", fmt.Errorf("list tokens: %w", err)
	}
	for _, id := range ids {
		page = append(page, Token{App: id})
	}
	return page, next, nil
}

// scan reads about n apps of the hash, without what is there under ids that no
// app can have: it may be anything, a terminal's commands too, and nobody can call
// with it. Their tokens come with them, and are left.
func (s goZeroStore) scan(ctx context.Context, cursor string, n int) (ids []string, next string, err error) {
	var at uint64
	if cursor != "" {
		if at, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return nil, "", errCursor()
		}
	}
	pairs, at, err := s.rdb.HScan(ctx, s.key, at, "", int64(n)).Result()
	if err != nil {
		return nil, "", err
	}
	for i := 0; i < len(pairs); i += 2 {
		if AppFault(pairs[i]) == "" {
			ids = append(ids, pairs[i])
		}
	}
	slices.Sort(ids)
	if at != 0 {
		next = strconv.FormatUint(at, 10)
	}
	return ids, next, nil
}
