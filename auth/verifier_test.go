package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// verify wants c accepted (err nil) or refused with err.
func (g *gateway) verify(t *testing.T, c Credential, err error) {
	t.Helper()
	p, got := g.Verify(t.Context(), c)
	if !errors.Is(got, err) || (err == nil) != (p != nil) {
		t.Fatalf("Verify: %v, want %v", got, err)
	}
	if err == nil && p.App != c.App {
		t.Fatalf("Verify: the principal's app is %q, want %q", p.App, c.App)
	}
	if err != nil && c.Token != "" && (PublicText(got) == "" || strings.Contains(fmt.Sprintf("%v %+v %#v", got, got, got), c.Token)) {
		t.Fatalf("Verify: the error %v has no public text, or shows the token", got)
	}
}

func TestVerify(t *testing.T) {
	rdb := startRedis(t).client()
	s := tenant.NewStore(rdb, config.Auth{})
	a, b := issue(t, s, "acme"), issue(t, s, "beta")
	otherSecret := reSum(a.Secret[:secretStart] + b.Secret[secretStart:])
	unknown, _ := tenant.NewToken()
	for name, tc := range map[string]struct {
		c   Credential
		err error
	}{
		"right":                 {credential(a), nil},
		"right, another app":    {credential(b), nil},
		"an unknown token":      {Credential{"acme", unknown}, ErrInvalid},
		"an unknown app":        {Credential{"nobody", a.Secret}, ErrInvalid},
		"another app's token":   {Credential{"acme", b.Secret}, ErrInvalid},
		"another secret":        {Credential{"acme", otherSecret}, ErrInvalid},
		"another case":          {Credential{"ACME", a.Secret}, ErrInvalid},
		"no token of ours":      {Credential{"acme", "guess"}, ErrInvalid},
		"a wrong checksum":      {Credential{"acme", a.Secret[:len(a.Secret)-8] + "00000000"}, ErrInvalid},
		"nothing":               {Credential{}, ErrMalformed},
		"an app that is no app": {Credential{"a/b", a.Secret}, ErrMalformed},
		"a token that is none":  {Credential{"acme", "to ken"}, ErrInvalid},
		"no token":              {Credential{"acme", ""}, ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, rdb, config.Auth{})
			for range 2 { // the second time from the cache
				g.verify(t, tc.c, tc.err)
			}
			if out := g.log.String(); tc.c.Token != "" && strings.Contains(out, tc.c.Token) {
				t.Error("the log shows the token")
			}
		})
	}
	if p, err := newGateway(t, rdb, config.Auth{}).Verify(t.Context(), credential(a)); err != nil || p.TokenID != a.ID || !p.Expires.Equal(a.Expires) || p.Revoked() {
		t.Errorf("the principal is %+v, %v", p, err)
	}
}

// Malformed tokens, and wrong secrets of an id that is known, are refused
// without asking Redis; made-up ones leave memory flat.
func TestWhatIsAsked(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	s := tenant.NewStore(rdb, config.Auth{})
	a, b := issue(t, s, "acme"), issue(t, s, "acme")
	g := newGateway(t, rdb, config.Auth{Cache: config.CredentialCache{Entries: 10, NegativeEntries: 10}})

	lookUps := func() int { return server.calls(rdb, "hmget") / 2 } // of a token and its app
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() { _, _ = g.Verify(t.Context(), credential(a)) })
	}
	wg.Wait()
	if n := lookUps(); n != 1 {
		t.Errorf("200 first calls of one credential asked Redis %d times, want once", n)
	}
	wrong := reSum(a.Secret[:secretStart] + b.Secret[secretStart:])
	for range 100 {
		g.verify(t, Credential{"acme", wrong}, ErrInvalid)
		g.verify(t, Credential{"acme", a.Secret[1:]}, ErrInvalid)
		g.verify(t, Credential{"acme", strings.ToUpper(a.Secret)}, ErrInvalid)
	}
	if n := lookUps(); n != 1 {
		t.Errorf("wrong tokens asked Redis %d times more", n-1)
	}
	for range 1000 {
		madeUp, _ := tenant.NewToken()
		g.verify(t, Credential{"acme", madeUp}, ErrInvalid)
	}
	if entries, negative := g.cache.Len(); entries != 1 || negative != 10 {
		t.Errorf("the cache holds %d entries and %d misses, want 1 and 10", entries, negative)
	}
	g.verify(t, credential(a), nil)
	if n := lookUps(); n != 1001 {
		t.Errorf("Redis was asked %d times, want 1001", n)
	}
}

// What is remembered keeps no part of the caller's header in memory.
func TestNothingSecretIsRemembered(t *testing.T) {
	rdb := startRedis(t).client()
	for name, cfg := range map[string]config.Auth{"hashed": {}, "gozero": goZero()} {
		issued, err := tenant.NewStore(rdb, cfg).Issue(t.Context(), tenant.IssueOptions{App: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		g := newGateway(t, rdb, cfg)
		header := "Bearer acme." + issued.Secret
		c, err := parseAuthorization(header)
		if err != nil {
			t.Fatal(err)
		}
		within := func(s string) bool {
			if s == "" {
				return false
			}
			at, from := uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(unsafe.Pointer(unsafe.StringData(header)))
			return from <= at && at < from+uintptr(len(header))
		}
		if !within(c.Token) {
			t.Fatal("the test does not test")
		}
		p, err := g.Verify(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range g.cache.Keys() {
			r, _ := g.cache.Peek(k)
			for _, s := range []string{k.app, k.id, r.principal.App, r.principal.TokenID, p.App, p.TokenID} {
				if within(s) {
					t.Errorf("%s: %q is a piece of the header", name, s)
				}
			}
			if shown := fmt.Sprintf("%+v %#v", r, k); strings.Contains(shown, issued.Secret) {
				t.Errorf("%s: the record shows the token", name)
			}
		}
	}
}

func TestExpiry(t *testing.T) {
	rdb := startRedis(t).client()
	s := tenant.NewStore(rdb, config.Auth{})
	short, err := s.Issue(t.Context(), tenant.IssueOptions{App: "acme", TTL: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	g := newGateway(t, rdb, config.Auth{})
	g.verify(t, credential(short), nil)
	eventually(t, "the expiry", func() bool {
		_, err := g.Verify(t.Context(), credential(short))
		return errors.Is(err, ErrExpired)
	})
	if now := time.Now(); now.Before(short.Expires) {
		t.Errorf("expired %s too early", short.Expires.Sub(now))
	}
	// Who has never seen it says the same, as long as Redis keeps it.
	newGateway(t, rdb, config.Auth{}).verify(t, credential(short), ErrExpired)
	if list, _, err := s.Tokens(t.Context(), "", "", 0); err != nil || len(list) != 1 {
		t.Errorf("Tokens = %+v, %v; want the expired one", list, err)
	}
	rdb.Del(t.Context(), "rpcgate:{acme}:token:"+short.ID)
	newGateway(t, rdb, config.Auth{}).verify(t, credential(short), ErrInvalid)
	if list, _, err := s.Tokens(t.Context(), "", "", 0); err != nil || len(list) != 0 {
		t.Errorf("Tokens = %+v, %v; want none", list, err)
	}
}

func TestEmptyRedisRefusesEverything(t *testing.T) {
	rdb := startRedis(t).client()
	token, _ := tenant.NewToken()
	for _, cfg := range []config.Auth{{}, {Mode: "lenient"}, goZero()} {
		newGateway(t, rdb, cfg).verify(t, Credential{"acme", token}, ErrInvalid)
	}
}

// What Redis answers but cannot be a token's record is no proof against it.
func TestDamagedRecords(t *testing.T) {
	rdb := startRedis(t).client()
	a := issue(t, tenant.NewStore(rdb, config.Auth{}), "acme")
	ctx, key := t.Context(), "rpcgate:{acme}:token:"+a.ID
	for _, tc := range []struct {
		name   string
		damage func() error
	}{
		{"hash", func() error { return rdb.HSet(ctx, key, "hash", "zz").Err() }},
		{"expires", func() error { return rdb.HSet(ctx, key, "hash", strings.Repeat("0", 64), "expires", "soon").Err() }},
		{"type", func() error { return errors.Join(rdb.Del(ctx, key).Err(), rdb.Set(ctx, key, "x", 0).Err()) }},
	} {
		if err := tc.damage(); err != nil {
			t.Fatal(err)
		}
		t.Run(tc.name, func(t *testing.T) { newGateway(t, rdb, config.Auth{}).verify(t, credential(a), ErrUnavailable) })
	}
}

func TestGoZero(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	ctx := t.Context()
	rdb.HSet(ctx, "rpc:apps", "acme", "free-form/token.1", "empty", "")
	cfg := goZero()
	cfg.Cache.NegativeTTL = 200 * time.Millisecond
	g := startGateway(t, rdb, cfg)
	g.hearing(t)
	before := server.calls(rdb, "hget")
	g.verify(t, Credential{"acme", "free-form/token.1"}, nil)
	for range 100 {
		g.verify(t, Credential{"acme", "free-form/token.2"}, ErrInvalid)
	}
	g.verify(t, Credential{"empty", "x"}, ErrInvalid)
	g.verify(t, Credential{"empty", ""}, ErrInvalid)
	g.verify(t, Credential{"acme", strings.Repeat("x", 257)}, ErrInvalid)
	g.verify(t, Credential{"nobody", "x"}, ErrInvalid)
	if n := server.calls(rdb, "hget") - before; n > 10 {
		t.Errorf("Redis was asked %d times for two apps", n)
	}

	// Changed by hand, without a word to us: the new token is taken as soon as
	// it is presented, and the old one is done with.
	rdb.HSet(ctx, "rpc:apps", "acme", "changed")
	eventually(t, "the changed token", func() bool {
		_, err := g.Verify(ctx, Credential{"acme", "changed"})
		return err == nil
	})
	g.verify(t, Credential{"acme", "free-form/token.1"}, ErrInvalid)
	if !g.told(Revocation{App: "acme"}) {
		t.Error("the change was not told")
	}

	next, err := tenant.NewStore(rdb, cfg).Rotate(ctx, "acme", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the rotated token", func() bool {
		_, err := g.Verify(ctx, Credential{"acme", "changed"})
		return errors.Is(err, ErrInvalid)
	})
	g.verify(t, credential(next), nil)
}

func TestNewVerifierRefuses(t *testing.T) {
	for name, cfg := range map[string]config.Auth{
		"an unknown mode":   {Mode: "open"},
		"gozero, no key":    {GoZero: &config.GoZero{}},
		"a bad cache bound": {Cache: config.CredentialCache{Entries: -1}},
	} {
		if _, err := NewVerifier(nil, cfg, VerifierOptions{}); err == nil {
			t.Errorf("%s, and no error", name)
		}
	}
}

type panicking struct{ layout }

func (panicking) load(context.Context, cacheKey) (*record, error) { panic("out of order") }

func TestPanicInALookUp(t *testing.T) {
	g := newGateway(t, nil, config.Auth{})
	g.layout = panicking{g.layout}
	token, _ := tenant.NewToken()
	g.verify(t, Credential{"acme", token}, ErrUnavailable)
	if out := g.log.String(); !strings.Contains(out, "out of order") || !strings.Contains(out, "verifier_test.go") {
		t.Errorf("the panic is not logged with its stack: %s", out)
	}
}

// hanging is a layout whose Redis never answers.
type hanging struct{ hashedLayout }

func (hanging) load(ctx context.Context, _ cacheKey) (*record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The caller's own deadline is told from a look-up's time limit.
func TestCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil, config.Auth{Cache: config.CredentialCache{LoadTimeout: time.Second}})
		g.layout = hanging{}
		token, _ := tenant.NewToken()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := g.Verify(ctx, Credential{"acme", token})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) {
			t.Errorf("the caller's deadline: %v", err)
		}
		_, err = g.Verify(t.Context(), Credential{"acme", token})
		if errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("the look-up's time limit: %v", err)
		}
		var e *Error
		if !errors.As(err, &e) || e.Cause() == nil {
			t.Errorf("%v has no cause", err)
		}
	})
}

func BenchmarkVerifyHit(b *testing.B) {
	text, token := tenant.NewToken()
	g, err := NewVerifier(nil, config.Auth{}, VerifierOptions{})
	if err != nil {
		b.Fatal(err)
	}
	g.layout = fixed{record: &record{principal: Principal{App: "acme", TokenID: token.ID, Expires: time.Now().Add(time.Hour)}, hash: token.Hash()}}
	ctx, c := b.Context(), Credential{"acme", text}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Verify(ctx, c); err != nil {
			b.Fatal(err)
		}
	}
}

func TestVerifyHitAllocatesNothing(t *testing.T) {
	text, token := tenant.NewToken()
	g := newGateway(t, nil, config.Auth{})
	g.layout = fixed{record: &record{principal: Principal{App: "acme", TokenID: token.ID}, hash: token.Hash()}}
	ctx, c := t.Context(), Credential{"acme", text}
	g.verify(t, c, nil)
	if n := testing.AllocsPerRun(1000, func() { _, _ = g.Verify(ctx, c) }); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}

// fixed is a layout with one record.
type fixed struct {
	hashedLayout
	record *record
}

func (f fixed) load(context.Context, cacheKey) (*record, error) { return f.record, nil }
