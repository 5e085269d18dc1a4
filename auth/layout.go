package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/credcache"
)

// cacheKey names what is looked up. A struct: joined strings would let one
// tenant's credential be taken for another's.
type cacheKey struct{ app, id string }

// record is what is remembered of a token. Once the look-up has returned it, it
// never changes but for the principal's state.
type record struct {
	principal Principal
	hash      [sha256.Size]byte
	revoked   bool // as Redis had it
}

// state is what a process learns of a credential after it was looked up. The
// records that one look-up after another finds of one secret share it.
type state struct{ revoked atomic.Bool }

// layout is how tokens lie in Redis, as the verifier sees it.
type layout interface {
	// parse gives the token's id and the hash of its secret, without asking
	// Redis.
	parse(token string) (id string, hash [sha256.Size]byte, err error)
	// load asks Redis. The error wraps credcache.ErrNotFound if there is no
	// such token; any other means that Redis could not be asked.
	load(ctx context.Context, k cacheKey) (*record, error)
	// secretsChange tells whether a token's secret can change under one id.
	secretsChange() bool
}

func newLayout(rdb redis.UniversalClient, cfg config.Auth) layout {
	if cfg.GoZero != nil {
		return goZeroLayout{rdb, cfg.GoZero.Key}
	}
	return hashedLayout{rdb, keysOf(cfg)}
}

// keys makes the keys of the hashed layout. All keys of one app have its id as
// their hash tag, so that they share a slot of a cluster and one script can use
// them together:
//
//	<prefix>:{<app>}:token:<id>  hash: hash, created, expires, note, revoked, replaced_by
//	<prefix>:{<app>}:tokens      sorted set: id, by the Unix milliseconds of its end, or +inf
//	<prefix>:apps                set: app ids that ever had a token
//	<prefix>:revocations         channel, for the gozero layout too
type keys struct{ prefix string }

func keysOf(cfg config.Auth) keys {
	if cfg.KeyPrefix == "" {
		return keys{"rpcgate"}
	}
	return keys{cfg.KeyPrefix}
}

func (k keys) token(app, id string) string { return k.prefix + ":{" + app + "}:token:" + id }
func (k keys) index(app string) string     { return k.prefix + ":{" + app + "}:tokens" }
func (k keys) apps() string                { return k.prefix + ":apps" }
func (k keys) channel() string             { return k.prefix + ":revocations" }

// hashedLayout is rpcgate's own.
type hashedLayout struct {
	rdb  redis.UniversalClient
	keys keys
}

func (hashedLayout) parse(token string) (string, [sha256.Size]byte, error) {
	t, err := ParseToken(token)
	return t.ID, t.hash, err
}

func (hashedLayout) secretsChange() bool { return false }

func (l hashedLayout) load(ctx context.Context, k cacheKey) (*record, error) {
	values, err := l.rdb.HMGet(ctx, l.keys.token(k.app, k.id), "hash", "expires", "revoked").Result()
	if err != nil {
		return nil, fmt.Errorf("read token %s of app %s: %w", k.id, k.app, err)
	}
	digits, ok := values[0].(string)
	if !ok {
		return nil, credcache.ErrNotFound
	}
	r := &record{principal: Principal{App: k.app, TokenID: k.id}}
	if len(digits) != hex.EncodedLen(len(r.hash)) {
		return nil, fmt.Errorf("read token %s of app %s: its hash is damaged", k.id, k.app)
	}
	if _, err := hex.Decode(r.hash[:], []byte(digits)); err != nil {
		return nil, fmt.Errorf("read token %s of app %s: its hash is damaged", k.id, k.app)
	}
	if r.principal.Expires, err = instant(values[1]); err != nil {
		return nil, fmt.Errorf("read token %s of app %s: expires: %w", k.id, k.app, err)
	}
	r.revoked = values[2] != nil
	return r, nil
}

// instant reads Unix milliseconds; absent and "0" are the zero time.
func instant(v any) (time.Time, error) {
	s, _ := v.(string)
	if s == "" || s == "0" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("not a number of milliseconds")
	}
	return time.UnixMilli(ms).UTC(), nil
}

// goZeroLayout is that of go-zero's zRPC: one hash, app to token, in plain text.
// An app has one token, whose id is "". The plain text is hashed as soon as it
// is read.
type goZeroLayout struct {
	rdb redis.UniversalClient
	key string
}

func (goZeroLayout) parse(token string) (string, [sha256.Size]byte, error) {
	if fault := tokenFault(token); fault != "" {
		return "", [sha256.Size]byte{}, malformed(fault)
	}
	return "", hashOf(token), nil
}

func (goZeroLayout) secretsChange() bool { return true }

func (l goZeroLayout) load(ctx context.Context, k cacheKey) (*record, error) {
	token, err := l.rdb.HGet(ctx, l.key, k.app).Result()
	switch {
	case errors.Is(err, redis.Nil), err == nil && token == "":
		return nil, credcache.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("read the token of app %s: %w", k.app, err)
	}
	return &record{principal: Principal{App: k.app}, hash: hashOf(token)}, nil
}

// detached copies the key, so that what is remembered does not keep the header
// or token that it was cut out of, with the secret in it, in memory.
func (k cacheKey) detached() cacheKey {
	return cacheKey{strings.Clone(k.app), strings.Clone(k.id)}
}
