package tenant

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// goZeroStore keeps zRPC's layout: one hash, app to token, in plain text.
type goZeroStore struct {
	rdb     redis.UniversalClient
	key     string
	channel string
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
	if o.Note != "" || o.TTL != 0 {
		return Issued{}, fmt.Errorf("%w: it keeps neither notes nor expiries", ErrLayout)
	}
	text, _ := NewToken()
	made, err := s.rdb.HSetNX(ctx, s.key, o.App, text).Result()
	if err != nil {
		return Issued{}, err
	}
	if !made {
		return Issued{}, fmt.Errorf("%w: the app has a token already, and may have only one; rotate it", ErrLayout)
	}
	return Issued{Secret: text, Token: Token{App: o.App}}, nil
}

func (s goZeroStore) list(ctx context.Context, app string) ([]Token, error) {
	if app != "" {
		found, err := s.rdb.HExists(ctx, s.key, app).Result()
		if err != nil || !found {
			return nil, err
		}
		return []Token{{App: app}}, nil
	}
	apps, err := s.rdb.HKeys(ctx, s.key).Result()
	if err != nil {
		return nil, err
	}
	slices.Sort(apps)
	all := make([]Token, len(apps))
	for i, app := range apps {
		all[i] = Token{App: app}
	}
	return all, nil
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
