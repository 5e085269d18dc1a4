package auth

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// The demo's token store is miniredis: all that the store and the verifier do
// works there as well.
func TestMiniredis(t *testing.T) {
	server := miniredis.RunT(t)
	rdb := open(t, config.Redis{Addresses: []string{server.Addr()}})
	ctx := t.Context()
	for name, cfg := range map[string]config.Auth{"hashed": {}, "gozero": goZero()} {
		t.Run(name, func(t *testing.T) {
			s := tenant.NewStore(rdb, cfg)
			g := startGateway(t, rdb, cfg)
			g.hearing(t)
			for _, ttl := range []time.Duration{0, time.Hour} {
				if cfg.GoZero != nil && ttl > 0 {
					continue
				}
				first, err := s.Issue(ctx, tenant.IssueOptions{App: "demo", TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				g.verify(t, credential(first), nil)
				next, err := s.Rotate(ctx, "demo", first.ID, 0)
				if err != nil {
					t.Fatal(err)
				}
				refused := func(token tenant.Issued) func() bool {
					return func() bool {
						_, err := g.Verify(ctx, credential(token))
						return errors.Is(err, ErrRevoked) || errors.Is(err, ErrInvalid)
					}
				}
				within(t, soon, "the rotation", refused(first))
				g.verify(t, credential(next), nil)
				if all, _, err := s.Tokens(ctx, "", "", 0); err != nil || len(all) == 0 {
					t.Errorf("Tokens = %+v, %v", all, err)
				}
				if err := s.Revoke(ctx, "demo", next.ID); err != nil {
					t.Fatal(err)
				}
				within(t, soon, "the revocation", refused(next))
			}
		})
	}
}
