package tenant

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/config"
)

// Store keeps tokens in Redis. Issue, Rotate and the revocation of one token
// change all they change at once, or nothing (an app's id in the set of apps
// aside). The revocation of a whole app goes token by token, and can be repeated.
type Store struct{ layout storeLayout }

// storeLayout is how tokens lie in Redis, as the store sees it. Its methods are
// those of Store.
type storeLayout interface {
	issue(ctx context.Context, o IssueOptions) (Issued, error)
	list(ctx context.Context, app string) ([]Token, error)
	revoke(ctx context.Context, app, id string) error
	rotate(ctx context.Context, app, id string, grace time.Duration) (Issued, error)
}

// Issue makes a new token for an app.
func (s *Store) Issue(ctx context.Context, o IssueOptions) (Issued, error) {
	if err := o.check(); err != nil {
		return Issued{}, fmt.Errorf("issue a token: %w", err)
	}
	issued, err := s.layout.issue(ctx, o)
	if err != nil {
		return Issued{}, fmt.Errorf("issue a token for app %s: %w", o.App, err)
	}
	return issued, nil
}

// List returns the tokens of app, or of all apps if app is "", by app and time
// of creation.
func (s *Store) List(ctx context.Context, app string) ([]Token, error) {
	if app != "" {
		if err := ValidateApp(app); err != nil {
			return nil, fmt.Errorf("list tokens: %w", err)
		}
	}
	tokens, err := s.layout.list(ctx, app)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return tokens, nil
}

// Revoke ends a token, or all tokens of app if id is "", and tells every
// gateway. Revoking what is revoked tells them again. Errors: [ErrNoToken],
// after the gateways were told all the same.
func (s *Store) Revoke(ctx context.Context, app, id string) error {
	if err := ValidateApp(app); err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	if err := s.layout.revoke(ctx, app, id); err != nil {
		return fmt.Errorf("revoke %s: %w", tokenName(app, id), err)
	}
	return nil
}

// Rotate issues a token in place of another, with its note and the time to live
// it was given. The old one is valid for another grace, at most, and is revoked
// at once if that is 0. Errors: [ErrNoToken], [ErrReplaced].
func (s *Store) Rotate(ctx context.Context, app, id string, grace time.Duration) (Issued, error) {
	if err := ValidateApp(app); err != nil {
		return Issued{}, fmt.Errorf("rotate a token: %w", err)
	}
	if grace < 0 {
		return Issued{}, fmt.Errorf("rotate a token: the grace is %s, below zero", grace)
	}
	issued, err := s.layout.rotate(ctx, app, id, grace)
	if err != nil {
		return Issued{}, fmt.Errorf("rotate %s: %w", tokenName(app, id), err)
	}
	return issued, nil
}

// tokenName is for errors. What is not an id is left out: it may be a whole
// token, given by mistake.
func tokenName(app, id string) string {
	switch {
	case id == "":
		return "the token of app " + app
	case !validID(id):
		return "a token of app " + app
	default:
		return "token " + id + " of app " + app
	}
}

// NewStore makes the store of the layout that cfg names. With layout gozero an
// app has one token, without id, note or expiry: Issue refuses an app that has
// one already (zRPC would put the new one in its place, and cut off whoever uses
// the old one), Rotate replaces it without grace, Revoke removes it.
func NewStore(rdb redis.UniversalClient, cfg config.Auth) *Store {
	if cfg.GoZero != nil {
		return &Store{goZeroStore{rdb, cfg.GoZero.Key, KeysOf(cfg).Revocations()}}
	}
	return &Store{hashedStore{rdb, KeysOf(cfg)}}
}

func (o IssueOptions) check() error {
	switch {
	case o.TTL < 0:
		return &InputError{"ttl", fmt.Sprintf("the time to live is %s, below zero", o.TTL)}
	case o.TTL > 0 && o.TTL < time.Millisecond:
		return &InputError{"ttl", fmt.Sprintf("the time to live is %s, below a millisecond", o.TTL)}
	}
	if err := oneLine("note", o.Note, maxNote); err != nil {
		return err
	}
	return ValidateApp(o.App)
}
