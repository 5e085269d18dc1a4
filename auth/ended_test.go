package auth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// Redis forgets a revocation: a replica that lagged became master. Who knew of
// it, heard or looked up, goes on refusing; who did not cannot know.
func TestForgottenRevocation(t *testing.T) {
	for _, how := range []string{"heard", "looked up"} {
		t.Run(how, func(t *testing.T) {
			rdb := startRedis(t).client()
			s := tenant.NewStore(rdb, config.Auth{})
			token, other := issue(t, s, "acme"), issue(t, s, "acme")
			g := newGateway(t, rdb, config.Auth{})
			if how == "heard" {
				g.run(t)
				g.hearing(t)
			}
			if err := s.Revoke(t.Context(), "acme", token.ID); err != nil {
				t.Fatal(err)
			}
			if how == "heard" {
				within(t, soon, "the revocation", func() bool { return g.told(Revocation{"acme", token.ID}) })
			} else {
				g.verify(t, credential(token), ErrRevoked)
			}

			if n := rdb.HDel(t.Context(), "rpcgate:{acme}:token:"+token.ID, "revoked").Val(); n != 1 {
				t.Fatal("the token was not revoked")
			}
			for range 3 {
				g.cache.InvalidateAll()
				g.verify(t, credential(token), ErrRevoked)
				g.verify(t, credential(other), nil)
			}
			if n := strings.Count(g.log.String(), "has forgotten"); n != 1 {
				t.Errorf("said %d times: %s", n, g.log)
			}
			newGateway(t, rdb, config.Auth{}).verify(t, credential(token), nil)
		})
	}
}

func TestEndedIsBounded(t *testing.T) {
	e := newEnded()
	for i := range 2 * maxEnded {
		e.add(cacheKey{"acme", fmt.Sprint(i)})
	}
	oldest, _ := e.has(cacheKey{"acme", "0"})
	newest, _ := e.has(cacheKey{"acme", fmt.Sprint(2*maxEnded - 1)})
	if n := e.tokens.Len(); n != maxEnded || oldest || !newest {
		t.Errorf("%d are remembered, or the wrong ones", n)
	}
}
