package tenant

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/config"
)

// Store keeps apps and tokens in Redis. Its methods may be called by any number
// of goroutines and processes at once.
//
// In the layout gozero an app has one token, without id, note or expiry, and no
// record: Issue refuses an app that has a token already (zRPC would put the new
// one in its place, and cut off whoever uses the old one), Rotate replaces it
// without grace, Revoke removes it. What that layout cannot hold is refused with
// [ErrLayout].
type Store struct {
	rdb  redis.UniversalClient
	keys Keys
	zrpc *goZeroStore // nil: rpcgate's own layout
	now  func() time.Time

	confirm confirmation
}

// NewStore makes the store of the layout that cfg names.
func NewStore(rdb redis.UniversalClient, cfg config.Auth) *Store {
	s := &Store{rdb: rdb, keys: KeysOf(cfg), now: time.Now, confirm: confirmationOf(cfg)}
	if cfg.GoZero != nil {
		s.zrpc = &goZeroStore{rdb, cfg.GoZero.Key, s.keys.Revocations()}
	}
	return s
}

// own refuses what zRPC's layout cannot hold.
func (s *Store) own() error {
	if s.zrpc != nil {
		return ErrLayout
	}
	return nil
}

// newOp is a text that no other change has.
func newOp() string { return rand.Text() }

// register lists an app. Its slot is another than the app's own, so this is no
// part of the change that it is for, and is done twice: before it, so that what
// is there is always listed, and after it, since a deletion may have taken the
// app off the list in between. An app that is listed and is not there is
// skipped.
func (s *Store) register(ctx context.Context, app string) error {
	return s.rdb.ZAdd(ctx, s.keys.AppIDs(), redis.Z{Member: app}).Err()
}
