package tenant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// Load reads a token and its app in one round trip. Errors: [ErrNoToken]; any
// other means that Redis could not be asked, or that what it holds is damaged.
func Load(ctx context.Context, rdb redis.UniversalClient, keys Keys, app, id string) (Stored, error) {
	values, err := rdb.HMGet(ctx, keys.Token(app, id), "hash", "expires", "revoked").Result()
	if err != nil {
		return Stored{}, fmt.Errorf("read token %s of app %s: %w", id, app, err)
	}
	digits, ok := values[0].(string)
	if !ok {
		return Stored{}, ErrNoToken
	}
	s := Stored{Token: Token{App: app, ID: id}, App: App{ID: app, Status: Active}}
	if len(digits) != hex.EncodedLen(len(s.Hash)) {
		return Stored{}, fmt.Errorf("read token %s of app %s: its hash is damaged", id, app)
	}
	if _, err := hex.Decode(s.Hash[:], []byte(digits)); err != nil {
		return Stored{}, fmt.Errorf("read token %s of app %s: its hash is damaged", id, app)
	}
	if s.Token.Expires, err = instant(values[1]); err != nil {
		return Stored{}, fmt.Errorf("read token %s of app %s: expires: %w", id, app, err)
	}
	if s.Token.Revoked, err = instant(values[2]); err != nil {
		return Stored{}, fmt.Errorf("read token %s of app %s: revoked: %w", id, app, err)
	}
	return s, nil
}
