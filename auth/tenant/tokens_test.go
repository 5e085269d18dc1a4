package tenant

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/rpcgate/rpcgate/config"
)

// terms of a token that has all of them.
func fullOptions() IssueOptions {
	return IssueOptions{
		App: "acme", Note: "billing", TTL: time.Hour, Scopes: []string{"shop.OrderService/Get*", "GET /v1/orders/*"},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
		Limits:   config.Limits{Rate: 5, Concurrency: 2},
	}
}

func TestTokens(t *testing.T) {
	s, told := newStore(t)
	ctx := t.Context()
	must(s.CreateApp(ctx, App{ID: "acme", Scopes: []string{"shop.*/*"}, Limits: config.Limits{Rate: 100}, Weight: 2}))(t)
	first := must(s.Issue(ctx, fullOptions()))(t)
	if first.NewApp || first.Version != 1 || first.Expires.Sub(first.Created) != time.Hour {
		t.Errorf("issued %+v", first.Token)
	}
	if got := must(s.Token(ctx, "acme", first.ID))(t); !reflect.DeepEqual(got, first.Token) {
		t.Errorf("read %+v, want %+v", got, first.Token)
	}
	if other := must(s.Issue(ctx, IssueOptions{App: "new"}))(t); !other.NewApp {
		t.Error("an app without a record got none")
	}
	if a := must(s.App(ctx, "new"))(t); a.Created.IsZero() || a.Status != Active || a.Version != 1 {
		t.Errorf("the new app is %+v", a)
	}

	stored := must(Load(ctx, s.rdb, s.keys, "acme", first.ID))(t)
	parsed := must(ParseToken(first.Secret))(t)
	if stored.Hash != parsed.Hash() || !reflect.DeepEqual(stored.Token, first.Token) || !stored.AppKnown || stored.App.Weight != 2 ||
		stored.App.Limits.Rate != 100 {
		t.Errorf("loaded %+v", stored)
	}

	told.all()
	end := milli(time.Now().Add(2 * time.Hour))
	changed := must(s.ChangeToken(ctx, "acme", first.ID, TokenChange{
		Note: ptr("invoices"), Expires: &end, Scopes: &[]string{"shop.OrderService/GetOrder"}, Networks: &[]netip.Prefix{}, IfVersion: 1,
	}))(t)
	if changed.Note != "invoices" || !changed.Expires.Equal(end) || changed.Networks != nil || len(changed.Scopes) != 1 || changed.Version != 2 ||
		changed.Limits != first.Limits {
		t.Errorf("changed to %+v", changed)
	}
	if _, err := s.ChangeToken(ctx, "acme", first.ID, TokenChange{IfVersion: 1}); !errors.Is(err, ErrConflict) {
		t.Errorf("a change of an old version: %v", err)
	}
	forever := must(s.ChangeToken(ctx, "acme", first.ID, TokenChange{Expires: &time.Time{}}))(t)
	if !forever.Expires.IsZero() {
		t.Errorf("without an end it ends %s", forever.Expires)
	}
	if ttl := s.rdb.PTTL(ctx, s.keys.Token("acme", first.ID)).Val(); ttl >= 0 {
		t.Errorf("the token without an end vanishes after %s", ttl)
	}
	if got, want := told.all(), []string{"changed acme " + first.ID, "changed acme " + first.ID}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}

	// A rotation takes over what the token may do, and both are good for the grace.
	before := must(s.Issue(ctx, fullOptions()))(t)
	after := must(s.Rotate(ctx, "acme", before.ID, time.Minute))(t)
	if !reflect.DeepEqual(after.Scopes, before.Scopes) || !reflect.DeepEqual(after.Networks, before.Networks) || after.Limits != before.Limits ||
		after.Note != before.Note || after.Expires.Sub(after.Created) != time.Hour {
		t.Errorf("rotated %+v to %+v", before.Token, after.Token)
	}
	old := must(Load(ctx, s.rdb, s.keys, "acme", before.ID))(t)
	if !old.Token.Revoked.IsZero() || old.Token.ReplacedBy != after.ID || old.Token.Expires.Sub(after.Created) != time.Minute {
		t.Errorf("in its grace the old one is %+v", old.Token)
	}
}

func TestTokensRefuse(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	must(s.CreateApp(ctx, App{ID: "acme", Scopes: []string{"shop.OrderService/*"}}))(t)
	must(s.CreateApp(ctx, App{ID: "routes", Scopes: []string{"GET /v1/orders/**"}}))(t)
	there := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	keys := s.rdb.DBSize(ctx).Val()
	networks := make([]netip.Prefix, MaxNetworks+1)
	for i := range networks {
		networks[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32)
	}
	for name, tc := range map[string]struct {
		o     IssueOptions
		field string
	}{
		"no app":            {IssueOptions{}, "app"},
		"a note":            {IssueOptions{Note: strings.Repeat("n", MaxText+1)}, "note"},
		"a time to live":    {IssueOptions{TTL: -1}, "ttl"},
		"the year 10000":    {IssueOptions{TTL: 1<<63 - 1}, ""},
		"a scope":           {IssueOptions{Scopes: []string{"*/"}}, "scopes"},
		"no network":        {IssueOptions{Networks: []netip.Prefix{{}}}, "networks"},
		"an address":        {IssueOptions{Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/8")}}, "networks"},
		"many networks":     {IssueOptions{Networks: networks}, "networks"},
		"a limit":           {IssueOptions{Limits: config.Limits{Streams: -1}}, "limits.streams"},
		"another service":   {IssueOptions{Scopes: []string{"shop.OrderService/Get", "shop.UserService/*"}}, "scopes"},
		"another route":     {IssueOptions{App: "routes", Scopes: []string{"GET /v1/users/*"}}, "scopes"},
		"another verb":      {IssueOptions{App: "routes", Scopes: []string{"POST /v1/orders/*"}}, "scopes"},
		"one that may meet": {IssueOptions{Scopes: []string{"GET /v1/orders/{id}", "*"}}, ""},
	} {
		if name != "no app" && tc.o.App == "" {
			tc.o.App = "acme"
		}
		issued, err := s.Issue(ctx, tc.o)
		var input *InputError
		switch {
		case tc.field == "" && err == nil:
			if err := s.rdb.Del(ctx, s.keys.Token("acme", issued.ID)).Err(); err != nil {
				t.Fatal(err)
			}
		case !errors.As(err, &input) || input.Field != tc.field:
			t.Errorf("%s: %v, want a fault of %s", name, err, tc.field)
		}
	}
	if now := s.rdb.DBSize(ctx).Val(); now != keys {
		t.Errorf("what was refused left %d keys", now-keys)
	}
	past := time.Now().Add(-time.Second)
	for name, err := range map[string]error{
		"an expiry in the past": err1(s.ChangeToken(ctx, "acme", there.ID, TokenChange{Expires: &past})),
		"an expiry too far":     err1(s.ChangeToken(ctx, "acme", there.ID, TokenChange{Expires: ptr(latest().Add(time.Hour))})),
		"another's scope":       err1(s.ChangeToken(ctx, "acme", there.ID, TokenChange{Scopes: &[]string{"a.B/C"}})),
		"a cursor":              err2(s.Tokens(ctx, "acme", "x", 0)),
		"a cursor of all":       err2(s.Tokens(ctx, "", "a b/c", 0)),
		"a cursor of apps":      err2(s.Apps(ctx, "a b", 0)),
	} {
		if !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unknown := strings.Repeat("a", idLen)
	for name, err := range map[string]error{
		"read":    err1(s.Token(ctx, "acme", unknown)),
		"read x":  err1(s.Token(ctx, "acme", there.Secret)),
		"change":  err1(s.ChangeToken(ctx, "acme", unknown, TokenChange{})),
		"another": err1(s.Token(ctx, "beta", there.ID)),
		"load":    err1(Load(ctx, s.rdb, s.keys, "beta", there.ID)),
	} {
		if !errors.Is(err, ErrNoToken) || strings.Contains(err.Error(), there.Secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func err2[T, U any](_ T, _ U, err error) error { return err }

// All tokens of an app end at once, and those issued later live.
func TestRevokeAll(t *testing.T) {
	s, told := newStore(t)
	ctx := t.Context()
	var old []Issued
	for range batch + 1 {
		old = append(old, must(s.Issue(ctx, IssueOptions{App: "acme"}))(t))
	}
	before := issueAsBefore(t, s, "acme", time.Time{})
	told.all()
	if err := s.Revoke(ctx, "acme", ""); err != nil {
		t.Fatal(err)
	}
	if got := told.all(); !slices.Equal(got, []string{"revoked acme *"}) {
		t.Errorf("told %q", got)
	}
	later := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	next := must(s.Rotate(ctx, "acme", later.ID, time.Hour))(t)
	for _, id := range []string{old[0].ID, old[batch].ID, before.ID} {
		if stored := must(Load(ctx, s.rdb, s.keys, "acme", id))(t); stored.Token.Revoked.IsZero() {
			t.Errorf("token %s lives", id)
		}
		if ttl := s.rdb.PTTL(ctx, s.keys.Token("acme", id)).Val(); ttl <= 0 || ttl > tombstone {
			t.Errorf("the revoked token vanishes after %s", ttl)
		}
	}
	for _, id := range []string{later.ID, next.ID} {
		if stored := must(Load(ctx, s.rdb, s.keys, "acme", id))(t); !stored.Token.Revoked.IsZero() {
			t.Errorf("token %s is dead", id)
		}
	}
	// One step is enough, whatever becomes of the marks.
	if _, err := s.run(ctx, revokeAllScript, "acme", nil, Message{Kind: KindRevoked, App: "acme"}, newOp()); err != nil {
		t.Fatal(err)
	}
	if stored := must(Load(ctx, s.rdb, s.keys, "acme", next.ID))(t); stored.Token.Revoked.IsZero() {
		t.Error("a token that was not marked lives")
	}
	all := readAll(t, s, "acme", 1000)
	if len(all) != batch+4 {
		t.Errorf("%d tokens are listed", len(all))
	}
	for _, token := range all {
		if token.Revoked.IsZero() {
			t.Errorf("listed is %+v", token)
		}
	}
	if err := s.Revoke(ctx, "nobody", ""); !errors.Is(err, ErrNoToken) {
		t.Errorf("revoking nothing: %v", err)
	}
	if a := must(s.App(ctx, "acme"))(t); a.Status != Active {
		t.Errorf("the app is %+v", a)
	}
}

// readAll reads all tokens, of n a page, and tells of those that come twice.
func readAll(t testing.TB, s *Store, app string, n int) map[string]Token {
	t.Helper()
	all := map[string]Token{}
	for cursor := ""; ; {
		page, next, err := s.Tokens(t.Context(), app, cursor, n)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > n {
			t.Fatalf("a page of %d has %d tokens", n, len(page))
		}
		for _, token := range page {
			if _, twice := all[token.App+"/"+token.ID]; twice {
				t.Errorf("token %s of %s comes twice", token.ID, token.App)
			}
			all[token.App+"/"+token.ID] = token
		}
		if cursor = next; cursor == "" {
			return all
		}
	}
}

// A script that runs twice, as it does when the first answer is lost with its
// connection, does its change once, and tells of it.
func TestScriptsThatRunTwice(t *testing.T) {
	s, _ := newStore(t)
	s.rdb.AddHook(repeat{})
	ctx := t.Context()
	if a := must(s.CreateApp(ctx, App{ID: "acme", Name: "a"}))(t); a.Version != 1 {
		t.Errorf("created %+v", a)
	}
	if a := must(s.ChangeApp(ctx, "acme", AppChange{Name: ptr("b"), IfVersion: 1}))(t); a.Version != 2 {
		t.Errorf("changed to %+v", a)
	}
	first := must(s.Issue(ctx, IssueOptions{App: "beta", Note: "n"}))(t)
	if !first.NewApp || first.Note != "n" || first.Version != 1 {
		t.Errorf("issued %+v", first)
	}
	if got := must(s.ChangeToken(ctx, "beta", first.ID, TokenChange{Note: ptr("m"), IfVersion: 1}))(t); got.Version != 2 {
		t.Errorf("changed to %+v", got)
	}
	next := must(s.Rotate(ctx, "beta", first.ID, time.Hour))(t)
	if got := must(s.Token(ctx, "beta", first.ID))(t); got.ReplacedBy != next.ID || got.Version != 3 {
		t.Errorf("the old one is %+v", got)
	}
	at := must(s.Rotate(ctx, "beta", next.ID, 0))(t)
	if err := s.Revoke(ctx, "beta", at.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Revoke(ctx, "beta", ""); err != nil {
		t.Fatal(err)
	}
	if epoch := s.rdb.HGet(ctx, s.keys.App("beta"), "epoch").Val(); epoch != "1" {
		t.Errorf("all were revoked %s times", epoch)
	}
	if n := len(readAll(t, s, "beta", 10)); n != 3 {
		t.Errorf("there are %d tokens", n)
	}
	lines := exported(t, s)
	if err := s.DeleteApp(ctx, "beta"); err != nil {
		t.Fatal(err)
	}
	sum, err := s.ImportLines(ctx, strings.NewReader(lines), ImportOptions{Existing: ExistingReplace})
	if want := (ImportSummary{Created: 4, Kept: 1}); err != nil || sum != want {
		t.Errorf("imported %+v, %v", sum, err)
	}
	must(s.ChangeApp(ctx, "acme", AppChange{Name: ptr("c")}))(t)
	must(s.rdb.HSet(ctx, s.keys.Token("beta", first.ID), "note", "o").Result())(t)
	sum, err = s.ImportLines(ctx, strings.NewReader(lines), ImportOptions{Existing: ExistingReplace})
	if want := (ImportSummary{Replaced: 2, Kept: 3}); err != nil || sum != want {
		t.Errorf("imported again: %+v, %v", sum, err)
	}
}

// An operator's clock decides nothing: tokens end, are listed and stay dead by
// Redis'.
func TestOperatorsClocks(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, off := range map[string]time.Duration{"ahead": year, "behind": -year} {
		t.Run(name, func(t *testing.T) {
			right, _ := newStore(t)
			wrong := NewStore(right.rdb, config.Auth{})
			wrong.now = func() time.Time { return time.Now().Add(off) }
			ctx := t.Context()
			old := must(right.Issue(ctx, IssueOptions{App: "acme", TTL: 10 * 24 * time.Hour}))(t)
			next := must(wrong.Issue(ctx, IssueOptions{App: "acme", TTL: time.Hour}))(t)
			if left := time.Until(next.Expires); (left - time.Hour).Abs() > time.Minute {
				t.Errorf("a token for an hour ends in %s", left)
			}
			if n := len(readAll(t, right, "acme", 10)); n != 2 {
				t.Errorf("%d tokens are listed", n)
			}
			lines := exported(t, right)
			if err := wrong.Revoke(ctx, "acme", next.ID); err != nil {
				t.Fatal(err)
			}
			if token, err := right.Token(ctx, "acme", next.ID); err != nil || time.Since(token.Revoked).Abs() > time.Minute {
				t.Errorf("the revoked one is %+v, %v", token, err)
			}
			if err := wrong.DeleteApp(ctx, "acme"); err != nil {
				t.Fatal(err)
			}
			must(right.CreateApp(ctx, App{ID: "acme"}))(t)
			if token, err := right.Token(ctx, "acme", old.ID); !errors.Is(err, ErrNoToken) {
				t.Errorf("a token outlived its app: %+v, %v", token, err)
			}
			if sum, err := wrong.ImportLines(ctx, strings.NewReader(lines), ImportOptions{Existing: ExistingSkip}); err != nil || sum.Created != 2 {
				t.Errorf("imported %+v, %v", sum, err)
			}
		})
	}
}

// Tokens that have gone leave the indexes, and those the keyspace.
func TestTokensVanish(t *testing.T) {
	server := miniredis.RunT(t)
	s := NewStore(connect(t, server.Addr()), config.Auth{})
	now := time.Now()
	s.now = func() time.Time { return now }
	ctx := t.Context()
	pass := func(d time.Duration) {
		now = now.Add(d)
		server.SetTime(now)
		server.FastForward(d)
	}
	server.SetTime(now)
	for range 150 {
		must(s.Issue(ctx, IssueOptions{App: "acme", TTL: time.Hour}))(t)
	}
	pass(2 * time.Hour)
	if n := len(readAll(t, s, "acme", 100)); n != 150 {
		t.Errorf("%d expired tokens are listed, want all of them for a day", n)
	}
	pass(24 * time.Hour)
	if n := len(readAll(t, s, "acme", 100)); n != 0 {
		t.Errorf("%d tokens are listed a day after they expired", n)
	}
	must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	if n, m := s.rdb.ZCard(ctx, s.keys.Tokens("acme")).Val(), s.rdb.ZCard(ctx, s.keys.IDs("acme")).Val(); n != 2 || m != 2 {
		t.Errorf("the indexes have %d and %d tokens, want 2", n, m)
	}
	pass(time.Hour)
	if err := s.Revoke(ctx, "acme", ""); err != nil {
		t.Fatal(err)
	}
	pass(tombstone + time.Second)
	if keys := server.Keys(); !slices.Equal(keys, []string{"rpcgate:app-ids", "rpcgate:{acme}:app"}) {
		t.Errorf("what is left: %q", keys)
	}
}

// An app has a bounded number of tokens.
func TestMaxTokens(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	for i := range 3 {
		_, token := NewToken()
		answer := must(s.run(ctx, issueScript, "acme", []string{token.ID}, Message{}, token.ID, fmt.Sprintf("%x", token.hash), 0, 2))(t)
		if want := map[bool]string{true: "ok", false: "many"}[i < 2]; answer.word != want {
			t.Errorf("the %d-th token: %s, want %s", i+1, answer.word, want)
		}
	}
}
