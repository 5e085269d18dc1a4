package auth

import (
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/auth/scope"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

func newApp(t *testing.T, s *tenant.Store, a tenant.App) {
	t.Helper()
	if _, err := s.CreateApp(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

func changeApp(t *testing.T, s *tenant.Store, id string, c tenant.AppChange) {
	t.Helper()
	if _, err := s.ChangeApp(t.Context(), id, c); err != nil {
		t.Fatal(err)
	}
}

// principal is that of a credential which is good.
func (g *gateway) principal(t *testing.T, c Credential) *Principal {
	t.Helper()
	p, err := g.Verify(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A principal has what the records of its app and its token say.
func TestPrincipalHasWhatTheRecordsSay(t *testing.T) {
	server := startRedis(t)
	s := tenant.NewStore(server.client(), config.Auth{})
	newApp(t, s, tenant.App{
		ID: "acme", Scopes: []string{"shop.*/*", "GET /v1/**"}, Limits: config.Limits{Rate: 10, Per: time.Second},
		Priority: "high", Weight: 3,
	})
	issued, err := s.Issue(t.Context(), tenant.IssueOptions{
		App: "acme", Scopes: []string{"shop.OrderService/Get*", "GET /v1/orders/*", "other.X/Y"},
		Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")},
		Limits:   config.Limits{Concurrency: 5},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, server.client(), config.Auth{})
	p := g.principal(t, credential(issued))
	if p.Priority != "high" || p.Weight != 3 || p.AppLimits.Rate != 10 || p.TokenLimits.Concurrency != 5 {
		t.Errorf("the principal is %+v", p)
	}
	for target, want := range map[scope.Target]bool{
		{Method: "shop.OrderService/GetOrder"}:                                        true,
		{Method: "shop.OrderService/ListOrders"}:                                      false, // the token's are narrower
		{Method: "other.X/Y"}:                                                         false, // the app's are
		{Method: "other.X/Z", Verb: "GET", Path: "/v1/orders/{id}"}:                   true,
		{Method: "other.X/Z", Verb: "GET", Path: "/v1/users/{id}"}:                    false,
		{Method: "shop.OrderService/ListOrders", Verb: "GET", Path: "/v1/orders/{x}"}: true,
	} {
		if got := p.Allows(target); got != want {
			t.Errorf("Allows(%+v) = %t", target, got)
		}
	}
	want := []string{
		"x-rpcgate-app", "acme", "x-rpcgate-token-id", issued.ID, "x-rpcgate-scopes", "shop.OrderService/Get*, GET /v1/orders/*",
	}
	if got := p.Identity(IdentityOf([]string{"app", "token_id", "scopes"})); !slices.Equal(got, want) {
		t.Errorf("Identity = %q, want %q", got, want)
	}
	for ip, want := range map[string]bool{"192.0.2.9": true, "192.0.3.9": false, "2001:db8::9": true, "::ffff:192.0.2.9": true} {
		if got := p.AllowsFrom(ip); got != want {
			t.Errorf("AllowsFrom(%q) = %t", ip, got)
		}
	}
}

// A token of the time before there were records belongs to an active app that
// may do everything.
func TestAppWithoutARecord(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	text, token := tenant.NewToken()
	hash := token.Hash()
	err := rdb.HSet(t.Context(), tenant.KeysOf(config.Auth{}).Token("old", token.ID), "hash", hex.EncodeToString(hash[:]), "created", "1", "expires", "0", "note", "").Err()
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, rdb, config.Auth{})
	p := g.principal(t, Credential{"old", text})
	if !p.Allows(scope.Target{Method: "a.B/C"}) || !p.AllowsFrom("192.0.2.1") || p.ScopeText != "*" || !p.AppLimits.IsZero() || !p.TokenLimits.IsZero() {
		t.Errorf("the principal is %+v", p)
	}
}

// Suspending and resuming an app, and changing what it may do, is heard.
func TestChangesOfAnAppAreHeard(t *testing.T) {
	server := startRedis(t)
	s := tenant.NewStore(server.client(), config.Auth{})
	newApp(t, s, tenant.App{ID: "acme"})
	token, other := issue(t, s, "acme"), issue(t, s, "other")
	g := startGateway(t, server.client(), byPush("a"))
	g.hearing(t)
	before := g.principal(t, credential(token))
	g.verify(t, credential(other), nil)

	suspended, active := tenant.Suspended, tenant.Active
	changeApp(t, s, "acme", tenant.AppChange{Status: &suspended})
	within(t, soon, "the suspension", g.refuses(t, credential(token), ErrSuspended))
	if !before.Revoked() || !g.told(Revocation{App: "acme"}) {
		t.Error("calls in flight are not told of the suspension")
	}
	wrong := credential(token)
	wrong.Token = reSum(token.Secret[:secretStart] + other.Secret[secretStart:])
	g.verify(t, wrong, ErrInvalid) // to nobody else
	g.verify(t, credential(other), nil)

	changeApp(t, s, "acme", tenant.AppChange{Status: &active})
	within(t, soon, "the resumption", g.refuses(t, credential(token), nil))
	if p := g.principal(t, credential(token)); p.Revoked() {
		t.Error("who comes after the resumption counts as revoked")
	}

	scopes, limits := []string{"shop.X/*"}, config.Limits{Rate: 7, Per: time.Second}
	changeApp(t, s, "acme", tenant.AppChange{Scopes: &scopes, Limits: &limits})
	within(t, soon, "the scopes and limits", func() bool {
		p := g.principal(t, credential(token))
		return !p.Allows(scope.Target{Method: "shop.Z/A"}) && p.AppLimits.Rate == 7
	})
	ofToken := []string{"shop.X/Z"}
	if _, err := s.ChangeToken(t.Context(), "acme", token.ID, tenant.TokenChange{Scopes: &ofToken}); err != nil {
		t.Fatal(err)
	}
	within(t, soon, "the token's scopes", func() bool {
		return !g.principal(t, credential(token)).Allows(scope.Target{Method: "shop.X/Y"})
	})
	if err := s.DeleteApp(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	within(t, soon, "the deletion", g.refusesAny(t, credential(token)))
	g.verify(t, credential(other), nil)
}

// refusesAny tells whether a credential is refused for whichever reason there is
// for one that is no good.
func (g *gateway) refusesAny(t *testing.T, c Credential) func() bool {
	return func() bool {
		t.Helper()
		_, err := g.Verify(t.Context(), c)
		return errors.Is(err, ErrInvalid) || errors.Is(err, ErrRevoked)
	}
}

// Without a subscription a suspension shows by asking.
func TestSuspensionIsNoticedByALookUp(t *testing.T) {
	server := startRedis(t)
	s := tenant.NewStore(server.client(), config.Auth{})
	newApp(t, s, tenant.App{ID: "acme"})
	token := issue(t, s, "acme")
	g := newGateway(t, server.client(), config.Auth{Cache: config.CredentialCache{TTL: 50 * time.Millisecond}})
	p := g.principal(t, credential(token))
	suspended := tenant.Suspended
	changeApp(t, s, "acme", tenant.AppChange{Status: &suspended})
	eventually(t, "the suspension", g.refuses(t, credential(token), ErrSuspended))
	if !p.Revoked() || !g.told(Revocation{"acme", token.ID}) {
		t.Error("calls in flight are not told of the suspension")
	}
}

// Records that the store would not write are not taken for "everything".
func TestDamagedScopesRefuse(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	s := tenant.NewStore(rdb, config.Auth{})
	token := issue(t, s, "acme")
	if err := rdb.HSet(t.Context(), tenant.KeysOf(config.Auth{}).Token("acme", token.ID), "scopes", "not a scope").Err(); err != nil {
		t.Fatal(err)
	}
	newGateway(t, rdb, config.Auth{}).verify(t, credential(token), ErrUnavailable)
}

// zRPC's plain tokens, imported as hashes, are good beside rpcgate's own; until
// there are some, what is none of rpcgate's own costs Redis nothing.
func TestImportedTokens(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	s := tenant.NewStore(rdb, config.Auth{})
	ctx := t.Context()
	plain := Credential{"acme", "a-plain-secret"}
	g := startGateway(t, server.client(), byPush("a"))
	g.hearing(t)
	own := issue(t, s, "acme")
	g.verify(t, credential(own), nil)
	g.verify(t, plain, ErrInvalid)
	if g.imported.answer.Load() != importedNone {
		t.Error("it does not know that none were imported")
	}
	if n, _ := g.cache.Len(); n != 1 {
		t.Errorf("%d records are remembered, want that of the good token", n)
	}

	importAll := func(token string) {
		t.Helper()
		if err := rdb.HSet(ctx, "rpc:auth", "acme", token).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := tenant.ImportGoZero(ctx, rdb, "rpc:auth", s, tenant.GoZeroOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	importAll(plain.Token)
	within(t, soon, "the imported token", g.refuses(t, plain, nil))
	if p := g.principal(t, plain); p.TokenID != tenant.ImportedID {
		t.Errorf("its id is %q", p.TokenID)
	}
	g.verify(t, Credential{"acme", "another-secret"}, ErrInvalid)
	g.verify(t, credential(own), nil)
	fresh := newGateway(t, server.client(), config.Auth{})
	fresh.imported.answer.Store(importedUnknown) // it has asked nobody yet
	fresh.verify(t, plain, nil)

	// Changed in zRPC, and imported again.
	before := g.principal(t, plain)
	importAll("the-next-secret")
	within(t, soon, "the end of the old one", g.refuses(t, plain, ErrInvalid))
	within(t, soon, "the next one", g.refuses(t, Credential{"acme", "the-next-secret"}, nil))
	if !before.Revoked() {
		t.Error("calls in flight are not told")
	}
	if err := s.Revoke(ctx, "acme", tenant.ImportedID); err != nil {
		t.Fatal(err)
	}
	within(t, soon, "the revocation", g.refuses(t, Credential{"acme", "the-next-secret"}, ErrRevoked))
}

// A gateway that hears no message finds out by itself that there are imported
// tokens.
func TestImportedTokensAreNoticedWithoutAMessage(t *testing.T) {
	server := startRedis(t)
	s := tenant.NewStore(server.client(), config.Auth{})
	g := newGateway(t, server.client(), config.Auth{})
	if err := server.client().HSet(t.Context(), "rpc:auth", "acme", "a-plain-secret").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := tenant.ImportGoZero(t.Context(), server.client(), "rpc:auth", s, tenant.GoZeroOptions{}); err != nil {
		t.Fatal(err)
	}
	g.verify(t, Credential{"acme", "a-plain-secret"}, ErrInvalid)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.watchImported(ctx) }()
	eventually(t, "the imported token", g.refuses(t, Credential{"acme", "a-plain-secret"}, nil))
	stop()
	<-done
}

// Records that are imported while gateways run are good at once, and do not count
// as revoked, whatever their ids were before.
func TestImportedRecordsAreGood(t *testing.T) {
	from, to := startRedis(t), startRedis(t)
	token := issue(t, tenant.NewStore(from.client(), config.Auth{}), "acme")
	g := startGateway(t, to.client(), byPush("a"))
	g.hearing(t)
	g.verify(t, credential(token), ErrInvalid)
	s := tenant.NewStore(to.client(), config.Auth{})
	err := tenant.NewStore(from.client(), config.Auth{}).Export(t.Context(), func(r tenant.Record) error {
		_, err := s.Import(t.Context(), r, tenant.ImportOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	within(t, soon, "the imported token", g.refuses(t, credential(token), nil))
}
