package tenant

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Sizes of pages.
const (
	defaultPage = 100
	maxPage     = 1000
	// batch is how many apps or tokens one command or script is about, at most,
	// where a caller has no say.
	batch = 200
	// fewTokens is how many tokens of an app are read at first where those of all
	// apps are listed: many apps in one round trip, and not too many of each.
	fewTokens = 16
)

func pageSize(n int) int {
	if n <= 0 {
		return defaultPage
	}
	return min(n, maxPage)
}

// after is a page of an index by id: what comes behind cursor.
func after(cursor string, n int) *redis.ZRangeBy {
	from := "-"
	if cursor != "" {
		from = "(" + cursor
	}
	return &redis.ZRangeBy{Min: from, Max: "+", Count: int64(n)}
}

// appIDs is a page of the index of apps. With the first page, apps that an older
// version has listed are adopted.
func (s *Store) appIDs(ctx context.Context, cursor string, n int) ([]string, error) {
	if cursor == "" {
		if err := s.adoptAll(ctx); err != nil {
			return nil, err
		}
	} else if AppFault(cursor) != "" {
		return nil, errCursor()
	}
	return s.rdb.ZRangeByLex(ctx, s.keys.AppIDs(), after(cursor, n)).Result()
}

func errCursor() error { return &InputError{"cursor", "the cursor is not one of a page before"} }

// Tokens reads a page of the tokens of an app, or of all apps if app is "", by
// app and id, of n at most, from cursor on: "" at first, and then the next of
// the page before, which is "" at the end. A page may be short, or empty, before
// that. A token that is there throughout comes exactly once (in the layout
// gozero: at least once, in no order).
func (s *Store) Tokens(ctx context.Context, app, cursor string, n int) (page []Token, next string, err error) {
	if app != "" {
		if err := ValidateApp(app); err != nil {
			return nil, "", fmt.Errorf("list tokens: %w", err)
		}
	}
	if s.zrpc != nil {
		return s.zrpc.tokens(ctx, app, cursor, pageSize(n))
	}
	var records []TokenRecord
	if app == "" {
		records, next, err = s.pageOfAll(ctx, cursor, pageSize(n))
	} else {
		records, next, err = s.pageOfApp(ctx, app, cursor, pageSize(n))
	}
	if err != nil {
		return nil, "", fmt.Errorf("list tokens: %w", err)
	}
	for _, r := range records {
		page = append(page, r.Token)
	}
	return page, next, nil
}

// pageOfApp is a page of one app's tokens, by id.
func (s *Store) pageOfApp(ctx context.Context, app, cursor string, n int) (page []TokenRecord, next string, err error) {
	if cursor == "" {
		if err := s.adopt(ctx, app); err != nil {
			return nil, "", err
		}
	} else if !ValidID(cursor) {
		return nil, "", errCursor()
	}
	ids, err := s.rdb.ZRangeByLex(ctx, s.keys.IDs(app), after(cursor, n)).Result()
	if err != nil || len(ids) == 0 {
		return nil, "", err
	}
	if len(ids) == n {
		next = ids[n-1]
	}
	life, err := s.lifeOf(ctx, app)
	if err != nil {
		return nil, "", err
	}
	page, err = s.readTokens(ctx, []idsOfApp{{app, ids, life}})
	return page, next, err
}

// idsOfApp are tokens to be read.
type idsOfApp struct {
	app string
	ids []string
	life
}

// readTokens reads those of the tokens that are there, in one round trip to each
// node.
func (s *Store) readTokens(ctx context.Context, of []idsOfApp) ([]TokenRecord, error) {
	var cmds []*redis.MapStringStringCmd
	if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, o := range of {
			for _, id := range o.ids {
				cmds = append(cmds, p.HGetAll(ctx, s.keys.Token(o.app, id)))
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	page := make([]TokenRecord, 0, len(cmds))
	for _, o := range of {
		for _, id := range o.ids {
			fields := cmds[0].Val()
			cmds = cmds[1:]
			if fields["hash"] == "" {
				continue // it has vanished, and its place in the index has not yet
			}
			t, _, err := readToken(o.app, id, fields, o.life)
			if err != nil {
				return nil, err
			}
			page = append(page, TokenRecord{Token: t, Hash: fields["hash"]})
		}
	}
	return page, nil
}

func (s *Store) lifeOf(ctx context.Context, app string) (life, error) {
	fields, err := s.rdb.HGetAll(ctx, s.keys.App(app)).Result()
	if err != nil {
		return life{}, err
	}
	_, l, _, err := readApp(app, fields)
	return l, err
}

// pageOfAll is a page of all apps' tokens. The cursor is app/id: what comes
// behind that token; or app alone: what comes behind that app.
func (s *Store) pageOfAll(ctx context.Context, cursor string, n int) (page []TokenRecord, next string, err error) {
	app, id, within := strings.Cut(cursor, "/")
	if within && AppFault(app) != "" {
		return nil, "", errCursor()
	}
	for within && len(page) < n {
		if id != "" && !ValidID(id) {
			return nil, "", errCursor()
		}
		more, rest, err := s.pageOfApp(ctx, app, id, n-len(page))
		if err != nil {
			return nil, "", err
		}
		page = append(page, more...)
		id, within = rest, rest != ""
	}
	if len(page) >= n {
		if within {
			return page, app + "/" + id, nil
		}
		return page, app, nil
	}
	more, next, err := s.firstOfApps(ctx, app, n-len(page))
	return append(page, more...), next, err
}

// firstOfApps reads the first tokens of the apps behind an app, n tokens at most,
// until it is full, an app has more than its first ones, or a batch of apps is
// through.
func (s *Store) firstOfApps(ctx context.Context, app string, n int) (page []TokenRecord, next string, err error) {
	apps, err := s.appIDs(ctx, app, batch)
	if err != nil || len(apps) == 0 {
		return nil, "", err
	}
	ids := make([]*redis.StringSliceCmd, len(apps))
	records := make([]*redis.MapStringStringCmd, len(apps))
	if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, app := range apps {
			ids[i] = p.ZRangeByLex(ctx, s.keys.IDs(app), after("", fewTokens))
			records[i] = p.HGetAll(ctx, s.keys.App(app))
		}
		return nil
	}); err != nil {
		return nil, "", err
	}
	if len(apps) == batch {
		next = apps[batch-1]
	}
	var of []idsOfApp
	for i, app := range apps {
		_, life, _, err := readApp(app, records[i].Val())
		if err != nil {
			return nil, "", err
		}
		these := ids[i].Val()
		if len(these) > n {
			these = these[:n]
		}
		n -= len(these)
		if len(these) > 0 {
			of = append(of, idsOfApp{app, these, life})
		}
		if len(these) < len(ids[i].Val()) || len(these) == fewTokens {
			next = app + "/"
			if len(these) > 0 {
				next += these[len(these)-1]
			}
			break
		}
		if n == 0 {
			next = app
			break
		}
	}
	page, err = s.readTokens(ctx, of)
	return page, next, err
}
