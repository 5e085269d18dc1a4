package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
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
	suspended bool // the app is, as Redis had it
}

// barred tells whether nobody may call with the token at all.
func (r *record) barred() bool { return r.revoked || r.suspended }

// state is what a process learns of a credential after it was looked up. The
// records that one look-up after another finds of one secret share it.
type state struct{ revoked, used atomic.Bool }

// layout is how tokens lie in Redis, as the verifier sees it.
type layout interface {
	// parse gives the token's id and the hash of its secret, without asking
	// Redis.
	parse(token string) (id string, hash [sha256.Size]byte, err error)
	// hasID tells whether a token can have this id.
	hasID(id string) bool
	// load asks Redis. The error wraps credcache.ErrNotFound if there is no
	// such token; any other means that Redis could not be asked.
	load(ctx context.Context, k cacheKey) (*record, error)
	// keepsUses tells whether there is a place for when a token was last used.
	keepsUses() bool
}

func newLayout(rdb redis.UniversalClient, cfg config.Auth, i *imported) layout {
	if cfg.GoZero != nil {
		return goZeroLayout{rdb, cfg.GoZero.Key}
	}
	return hashedLayout{rdb, tenant.KeysOf(cfg), i}
}

// hashedLayout is rpcgate's own.
type hashedLayout struct {
	rdb      redis.UniversalClient
	keys     tenant.Keys
	imported *imported
}

func (l hashedLayout) parse(token string) (string, [sha256.Size]byte, error) {
	return l.imported.parse(token)
}

func (hashedLayout) hasID(id string) bool { return tenant.ValidID(id) }

func (hashedLayout) keepsUses() bool { return true }

func (l hashedLayout) load(ctx context.Context, k cacheKey) (*record, error) {
	stored, err := tenant.Load(ctx, l.rdb, l.keys, k.app, k.id)
	switch {
	case errors.Is(err, tenant.ErrNoToken):
		return nil, credcache.ErrNotFound
	case err != nil:
		return nil, err
	}
	p, err := principalOf(stored)
	if err != nil {
		return nil, fmt.Errorf("read token %s of app %s: %w", k.id, k.app, err)
	}
	return &record{
		principal: *p,
		hash:      stored.Hash,
		revoked:   !stored.Token.Revoked.IsZero(),
		suspended: stored.App.Status == tenant.Suspended,
	}, nil
}

// goZeroLayout is that of go-zero's zRPC: one hash, app to token, in plain text.
// An app has one token, whose id is "", and no record: it may call everything.
// The plain text is hashed as soon as it is read.
type goZeroLayout struct {
	rdb redis.UniversalClient
	key string
}

func (goZeroLayout) parse(token string) (string, [sha256.Size]byte, error) {
	if fault := tenant.TokenFault(token); fault != "" {
		return "", [sha256.Size]byte{}, malformed(fault)
	}
	return "", tenant.HashOf(token), nil
}

func (goZeroLayout) hasID(id string) bool { return id == "" }

func (goZeroLayout) keepsUses() bool { return false }

func (l goZeroLayout) load(ctx context.Context, k cacheKey) (*record, error) {
	token, err := l.rdb.HGet(ctx, l.key, k.app).Result()
	switch {
	case errors.Is(err, redis.Nil), err == nil && token == "":
		return nil, credcache.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("read the token of app %s: %w", k.app, err)
	}
	return &record{principal: *NewPrincipal(Principal{App: k.app}), hash: tenant.HashOf(token)}, nil
}

// detached copies the key, so that what is remembered does not keep the header
// or token that it was cut out of, with the secret in it, in memory.
func (k cacheKey) detached() cacheKey {
	return cacheKey{strings.Clone(k.app), strings.Clone(k.id)}
}
