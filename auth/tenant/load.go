package tenant

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Stored is all that a verifier needs of a token.
type Stored struct {
	Hash  [sha256.Size]byte // of the secret
	Token Token             // Revoked also when all tokens of the app were
	App   App
	// AppKnown tells that the app has a record. Without one App is an active app
	// that may do everything.
	AppKnown bool
}

// Load reads a token and its app in one round trip, of two HMGET. Errors: [ErrNoToken]; any
// other means that Redis could not be asked, or that what it holds is damaged.
func Load(ctx context.Context, rdb redis.UniversalClient, keys Keys, app, id string) (Stored, error) {
	var token, record *redis.SliceCmd
	if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		// The app comes first. What a change after that brings about is told by its
		// message, whereas an app that is read after its token may have been
		// deleted, and forgotten, in between.
		record = p.HMGet(ctx, keys.App(app), appFieldNames()...)
		token = p.HMGet(ctx, keys.Token(app, id), tokenFieldNames()...)
		return nil
	}); err != nil {
		return Stored{}, fmt.Errorf("read token %s of app %s: %w", id, app, err)
	}
	fields := named(tokenFieldNames(), token.Val())
	if fields["hash"] == "" {
		return Stored{}, ErrNoToken
	}
	var s Stored
	var l life
	var err error
	if s.App, l, s.AppKnown, err = readApp(app, named(appFieldNames(), record.Val())); err != nil {
		return Stored{}, err
	}
	if s.Token, s.Hash, err = readToken(app, id, fields, l); err != nil {
		return Stored{}, err
	}
	return s, nil
}

// named puts the values that HMGET gives to the names they were asked for.
func named(names []string, values []any) map[string]string {
	fields := make(map[string]string, len(names))
	for i, v := range values {
		if text, ok := v.(string); ok {
			fields[names[i]] = text
		}
	}
	return fields
}
