package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// redisAt is a Redis as the gateway's config names it, and as the tests' store
// reaches it.
type redisAt struct {
	yaml  string // the inside of the section redis
	store config.Redis
}

func singleAt(addr string) redisAt {
	return redisAt{fmt.Sprintf("addresses: [%q]", addr), redisConfig(config.Redis{Addresses: []string{addr}})}
}

func sentinelsAt(s *redistest.Sentinels) redisAt {
	return redisAt{
		fmt.Sprintf("addresses: %s, mode: sentinel, master_name: %s", yamlList(s.Addrs), redistest.MasterName),
		redisConfig(config.Redis{Addresses: s.Addrs, Mode: "sentinel", MasterName: redistest.MasterName}),
	}
}

func clusterAt(c *redistest.Cluster) redisAt {
	return redisAt{
		fmt.Sprintf("addresses: %s, mode: cluster", yamlList(c.Addrs())),
		redisConfig(config.Redis{Addresses: c.Addrs(), Mode: "cluster"}),
	}
}

// redisConfig completes cfg by the defaults.
func redisConfig(cfg config.Redis) config.Redis {
	d := config.Defaults().Redis
	if cfg.Mode == "" {
		cfg.Mode = d.Mode
	}
	cfg.PoolSize, cfg.DialTimeout, cfg.ReadTimeout, cfg.WriteTimeout = d.PoolSize, d.DialTimeout, d.ReadTimeout, d.WriteTimeout
	return cfg
}

func yamlList(items []string) string { return `["` + strings.Join(items, `", "`) + `"]` }

// openStore opens the store of tokens in a Redis.
func openStore(t testing.TB, cfg config.Redis) *tenant.Store {
	t.Helper()
	rdb, err := auth.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return tenant.NewStore(rdb, config.Defaults().Auth)
}

// tenants is a gateway that knows two credentials: the rig's own, in use, and
// one that was in use and is revoked.
type tenants struct {
	*rig
	store *tenant.Store
	gone  tenant.Issued
}

// shortLife makes what is remembered old within a test, and serve on all the
// same.
const shortLife = "auth: {cache: {ttl: 500ms, stale: 10m, negative_ttl: 200ms, error_ttl: 200ms}}\n"

func startTenants(t *testing.T, at redisAt, settings string) *tenants {
	t.Helper()
	b := testbackend.Start(t)
	g := &tenants{rig: &rig{app: "acme"}, store: openStore(t, at.store)}
	g.token = g.issue(t, g.app).Secret
	g.gone = g.issue(t, g.app)
	g.start(t, at.yaml, echoConfig(b, "")+quiet+settings)
	g.heard(t, true)
	must(t, g.echoing())
	must(t, g.with(g.gone))
	g.revokes(t, g.gone)
	comesTo(t, g.with(g.gone), "TOKEN_REVOKED")
	return g
}

// issue issues a token, as soon as that can be done.
func (g *tenants) issue(t testing.TB, app string) (issued tenant.Issued) {
	t.Helper()
	gatewaytest.Eventually(t, func() (err error) {
		issued, err = g.store.Issue(t.Context(), tenant.IssueOptions{App: app})
		return err
	})
	return issued
}

func (g *tenants) revokes(t testing.TB, token tenant.Issued) {
	t.Helper()
	if err := g.store.Revoke(t.Context(), token.App, token.ID); err != nil {
		t.Fatal(err)
	}
}

// with is a call with a token.
func (g *tenants) with(token tenant.Issued) callFunc { return g.echoingAs(token.App, token.Secret) }

// serves checks that a token that was never used is looked up, and that a
// revocation is heard in time.
func (g *tenants) serves(t testing.TB, app string) {
	t.Helper()
	token := g.issue(t, app)
	must(t, g.with(token))
	g.heard(t, true)
	g.revokes(t, token)
	revoked := time.Now()
	comesTo(t, g.with(token), "TOKEN_REVOKED")
	if took := time.Since(revoked); took > slack {
		t.Errorf("the token still worked %v after it was revoked", took)
	}
}

// comesToBy repeats a call until it ends in a certain way, and wants no ends but
// certain others before.
func comesToBy(t testing.TB, call callFunc, want string, before ...string) {
	t.Helper()
	ctx := limited(t)
	gatewaytest.Eventually(t, func() error {
		switch got := reasonFor(call(ctx)); got {
		case want:
			return nil
		default:
			for _, allowed := range before {
				if got == allowed {
					return fmt.Errorf("the call ended with %s, want %s", got, want)
				}
			}
			t.Fatalf("the call ended with %s, want %s, or %v before", got, want, before)
			return nil
		}
	})
}

// neverWait checks that of all calls of a load, none waited for a look-up.
func (l *load) neverWait(t testing.TB) {
	t.Helper()
	l.stop()
	l.only()
	if l.slowest > slack {
		t.Errorf("the slowest call took %v", l.slowest)
	}
}

// within makes a call that has to end in a certain way, in time.
func within(t testing.TB, d time.Duration, call callFunc, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	began := time.Now()
	err := call(ctx)
	if got := reasonFor(err); got != reason {
		t.Fatalf("the call ended with %s, want %s", got, reason)
	}
	if took := time.Since(began); took > d {
		t.Errorf("the call took %v: %v", took, errors.Join(err))
	}
}
