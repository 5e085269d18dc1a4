package tenant

import (
	"context"
	"fmt"
)

// Older versions listed apps in a set, and tokens by their end alone. An app
// that is in the set still is adopted when it is next listed: its tokens are put
// into the index by id, a piece at a time, and it moves from the set to the
// index of apps.

const adoptScript = `
-- ids
for i = 4, #ARGV do
  if redis.call('ZSCORE', ends, ARGV[i]) then redis.call('ZADD', ids, 0, ARGV[i]) end
end
prune()
return {'ok', redis.call('ZCARD', ends) - redis.call('ZCARD', ids)}`

func (s *Store) adoptAll(ctx context.Context) error {
	for cursor := uint64(0); ; {
		apps, next, err := s.rdb.SScan(ctx, s.keys.Apps(), cursor, "", batch).Result()
		if err != nil {
			return err
		}
		for _, app := range apps {
			if err := s.adoptOne(ctx, app); err != nil {
				return fmt.Errorf("adopt app %s: %w", app, err)
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func (s *Store) adopt(ctx context.Context, app string) error {
	older, err := s.rdb.SIsMember(ctx, s.keys.Apps(), app).Result()
	if err != nil || !older {
		return err
	}
	return s.adoptOne(ctx, app)
}

func (s *Store) adoptOne(ctx context.Context, app string) error {
	if err := s.register(ctx, app); err != nil {
		return err
	}
	for {
		if err := s.indexIDs(ctx, app); err != nil {
			return err
		}
		if err := s.rdb.SRem(ctx, s.keys.Apps(), app).Err(); err != nil {
			return err
		}
		// An older version may have issued a token meanwhile.
		left, err := s.run(ctx, adoptScript, app, nil, Message{})
		if err != nil || left.number(0) <= 0 {
			return err
		}
		if err := s.rdb.SAdd(ctx, s.keys.Apps(), app).Err(); err != nil {
			return err
		}
	}
}

func (s *Store) indexIDs(ctx context.Context, app string) error {
	for cursor := uint64(0); ; {
		// Members and scores in turn.
		found, next, err := s.rdb.ZScan(ctx, s.keys.Tokens(app), cursor, "", batch).Result()
		if err != nil {
			return err
		}
		for len(found) > 0 {
			piece := found[:min(len(found), 2*batch)]
			found = found[len(piece):]
			ids := make([]any, 0, len(piece)/2)
			for i := 0; i < len(piece); i += 2 {
				ids = append(ids, piece[i])
			}
			if _, err := s.run(ctx, adoptScript, app, nil, Message{}, ids...); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
