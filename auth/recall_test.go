package auth

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/credcache"
)

// counted is the hashed layout over one token, and counts what would be asked of
// Redis.
type counted struct {
	hashedLayout
	app, id string
	hash    [32]byte
	asked   *atomic.Int64
}

func (l counted) load(_ context.Context, k cacheKey) (*record, error) {
	l.asked.Add(1)
	if k.app != l.app || k.id != l.id {
		return nil, credcache.ErrNotFound
	}
	return &record{principal: Principal{App: k.app, TokenID: k.id}, hash: l.hash}, nil
}

// An unknown app, an unknown token and a wrong secret take the same way, look-up
// for look-up: the time tells nobody which of them it was. Only known credentials
// take another.
func TestWrongCredentialsTakeTheSameWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good, _ := tenant.NewToken()
		madeUp, _ := tenant.NewToken()
		parsed, err := tenant.ParseToken(good)
		if err != nil {
			t.Fatal(err)
		}
		asked := new(atomic.Int64)
		g := newGateway(t, nil, config.Auth{})
		g.layout = counted{app: "acme", id: parsed.ID, hash: parsed.Hash(), asked: asked}
		type step struct {
			known  Recollection
			asked  int64
			failed bool
		}
		try := func(c Credential) step {
			t.Helper()
			before := asked.Load()
			_, known, err := g.Recall(c)
			if asked.Load() != before {
				t.Error("Recall asks Redis")
			}
			if known != Settled {
				_, err = g.Verify(t.Context(), c)
			}
			if err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrMalformed) {
				t.Errorf("%v", err)
			}
			return step{known, asked.Load() - before, err != nil}
		}
		known := Credential{"acme", good}
		if got := try(known); got != (step{Unproved, 1, false}) {
			t.Errorf("first: %+v", got)
		}
		if got := try(known); got != (step{Settled, 0, false}) {
			t.Errorf("known: %+v", got)
		}
		time.Sleep(time.Minute)
		for name, c := range map[string]Credential{
			"unknown app":    {"nobody", madeUp},
			"unknown token":  {"acme", madeUp},
			"wrong secret":   {"acme", reSum(good[:secretStart] + madeUp[secretStart:])},
			"another's":      {"other", good},
			"of another app": {"other", madeUp},
		} {
			if got := try(c); got != (step{Unproved, 1, true}) {
				t.Errorf("%s: %+v", name, got)
			}
			if got := try(c); got.asked != 0 || !got.failed {
				t.Errorf("%s, again: %+v", name, got)
			}
		}
		for name, c := range map[string]Credential{
			"bad checksum": {"acme", good[:len(good)-1] + "x"}, "no token": {"acme", "secret"}, "bad app": {"a b", good}, "empty": {},
		} {
			if got := try(c); got != (step{Settled, 0, true}) {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}
