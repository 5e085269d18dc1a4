package tenant

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

var errSoon = errors.New("not yet")

func (s *Store) CreateApp(ctx context.Context, a App) (App, error) { return App{}, errSoon }
func (s *Store) App(ctx context.Context, id string) (App, error)   { return App{}, errSoon }
func (s *Store) Apps(ctx context.Context, cursor string, n int) (page []App, next string, err error) {
	return nil, "", errSoon
}
func (s *Store) ChangeApp(ctx context.Context, id string, c AppChange) (App, error) {
	return App{}, errSoon
}
func (s *Store) DeleteApp(ctx context.Context, id string) error { return errSoon }
func (s *Store) Token(ctx context.Context, app, id string) (Token, error) {
	return Token{}, errSoon
}
func (s *Store) Tokens(ctx context.Context, app, cursor string, n int) (page []Token, next string, err error) {
	return nil, "", errSoon
}
func (s *Store) ChangeToken(ctx context.Context, app, id string, c TokenChange) (Token, error) {
	return Token{}, errSoon
}
func (s *Store) Export(ctx context.Context, to func(Record) error) error { return errSoon }
func (s *Store) Import(ctx context.Context, r Record, o ImportOptions) (ImportResult, error) {
	return "", errSoon
}

// GoZeroOptions say how zRPC's tokens are imported.
type GoZeroOptions struct {
	DryRun bool
	// Report is told of each app; refused says why it was not taken.
	Report func(app string, result ImportResult, refused error)
}

// GoZeroSummary counts what became of zRPC's tokens.
type GoZeroSummary struct{ Created, Kept, Refused int }

func ImportGoZero(ctx context.Context, from redis.UniversalClient, key string, to *Store, o GoZeroOptions) (GoZeroSummary, error) {
	return GoZeroSummary{}, errSoon
}
