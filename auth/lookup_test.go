package auth

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// scripted is the layout gozero with a Redis that answers when, and as, the
// test says.
type scripted struct {
	goZeroLayout
	asked chan chan<- string // each look-up waits for its token
}

func (s scripted) load(_ context.Context, k cacheKey) (*record, error) {
	answer := make(chan string)
	s.asked <- answer
	return &record{principal: Principal{App: k.app}, hash: tenant.HashOf(<-answer)}, nil
}

// A look-up that read the old token, and comes back after another has stored
// the new one, does not take the new one for revoked.
func TestLateLookUpSparesTheNewToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil, goZero())
		s := scripted{asked: make(chan chan<- string)}
		g.layout = s
		verify := func(token string) <-chan *Principal {
			got := make(chan *Principal, 1)
			go func() {
				p, _ := g.Verify(context.Background(), Credential{"acme", token})
				got <- p
			}()
			return got
		}

		old := verify("old")
		late := <-s.asked
		// A change is told; the look-up on its way is not heard any more.
		g.forget(tenant.Message{Kind: tenant.KindRevoked, App: "acme"})
		fresh := verify("new")
		(<-s.asked) <- "new" // for whichever of the two asks first
		p := <-fresh
		if p == nil {
			t.Fatal("the new token was refused")
		}
		late <- "old"
		synctest.Wait()
		if p.Revoked() || g.told(Revocation{App: "acme"}) {
			t.Error("a look-up that came late took the new token for revoked")
		}
		if again := <-verify("new"); again == nil {
			t.Error("the new token is refused")
		}
		if p := <-old; p != nil {
			t.Error("the old token was accepted")
		}
	})
}

// A principal hears of the revocation of what it was verified by, also when
// that was looked up again in between.
func TestPrincipalOutlivesARefresh(t *testing.T) {
	rdb := startRedis(t).client()
	ctx := t.Context()
	for name, m := range map[string]func(tenant.Issued) tenant.Message{
		"one token": func(i tenant.Issued) tenant.Message {
			return tenant.Message{Kind: tenant.KindRevoked, App: i.App, ID: i.ID}
		},
		"an app": func(i tenant.Issued) tenant.Message { return tenant.Message{Kind: tenant.KindRevoked, App: i.App} },
	} {
		t.Run(name, func(t *testing.T) {
			token := issue(t, tenant.NewStore(rdb, config.Auth{}), "acme")
			g := newGateway(t, rdb, config.Auth{})
			var all []*Principal
			for range 3 {
				p, err := g.Verify(ctx, credential(token))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, p)
				if err := g.cache.Refresh(ctx, cacheKey{token.App, token.ID}); err != nil {
					t.Fatal(err)
				}
			}
			if all[0] == all[1] {
				t.Fatal("the test does not test: nothing was looked up again")
			}
			g.forget(m(token))
			for i, p := range all {
				if !p.Revoked() {
					t.Errorf("the principal of verification %d does not know of the revocation", i)
				}
			}
			// The message was false: who is verified anew is not tainted by it.
			if p, err := g.Verify(ctx, credential(token)); err != nil || p.Revoked() {
				t.Errorf("Verify = %+v, %v; want a principal that is not revoked", p, err)
			}
		})
	}
}

// The same where no message comes, but a look-up finds it gone.
func TestPrincipalHearsFromALookUp(t *testing.T) {
	rdb := startRedis(t).client()
	ctx := t.Context()
	s := tenant.NewStore(rdb, config.Auth{})
	for name, end := range map[string]func(tenant.Issued) error{
		"revoked": func(i tenant.Issued) error { return s.Revoke(ctx, i.App, i.ID) },
		"deleted": func(i tenant.Issued) error { return rdb.Del(ctx, "rpcgate:{acme}:token:"+i.ID).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			token := issue(t, s, "acme")
			g := newGateway(t, rdb, config.Auth{})
			p, err := g.Verify(ctx, credential(token))
			if err != nil {
				t.Fatal(err)
			}
			k := cacheKey{token.App, token.ID}
			if err := g.cache.Refresh(ctx, k); err != nil {
				t.Fatal(err)
			}
			if err := end(token); err != nil {
				t.Fatal(err)
			}
			_ = g.cache.Refresh(ctx, k) // ErrNotFound if it was deleted
			if !p.Revoked() {
				t.Error("the principal does not know that its credential is gone")
			}
		})
	}
}

// counting is a layout that knows every token.
type counting struct {
	hashedLayout
	asked *atomic.Int64
}

func (c counting) load(_ context.Context, k cacheKey) (*record, error) {
	c.asked.Add(1)
	return &record{principal: Principal{App: k.app, TokenID: k.id}}, nil
}

// An interruption ends the pass over what is remembered: it begins no look-ups
// that callers would have to wait behind.
func TestInterruptedPassLooksNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil, config.Auth{})
		var asked atomic.Int64
		g.layout = counting{asked: &asked}
		keys := make([]cacheKey, 100)
		for i := range keys {
			keys[i] = cacheKey{"acme", strconv.Itoa(i)}
			if _, err := g.cache.Get(t.Context(), keys[i]); err != nil {
				t.Fatal(err)
			}
		}
		asked.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g.Verifier.verify(ctx, keys)
		synctest.Wait()
		if n := asked.Load(); n != 0 {
			t.Errorf("%d look-ups were begun", n)
		}
	})
}
