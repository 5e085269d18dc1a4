package tenant

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/config"
)

func goZero() config.Auth { return config.Auth{GoZero: &config.GoZero{Key: "rpc:apps"}} }

// issue issues a token that lives for an hour.
func issue(t *testing.T, s *Store, app string) Issued {
	t.Helper()
	issued, err := s.Issue(t.Context(), IssueOptions{App: app, Note: "for " + app, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

func contains(all []Token, want Token) bool {
	return slices.ContainsFunc(all, func(t Token) bool { return reflect.DeepEqual(t, want) })
}

// dump is all that Redis holds, as text.
func dump(t *testing.T, rdb redis.UniversalClient) string {
	t.Helper()
	ctx, out := t.Context(), ""
	for _, key := range rdb.Keys(ctx, "*").Val() {
		out += key + "\n"
		switch rdb.Type(ctx, key).Val() {
		case "hash":
			for k, v := range rdb.HGetAll(ctx, key).Val() {
				out += k + "=" + v + "\n"
			}
		case "set":
			out += strings.Join(rdb.SMembers(ctx, key).Val(), "\n")
		case "zset":
			out += strings.Join(rdb.ZRange(ctx, key, 0, -1).Val(), "\n")
		default:
			t.Errorf("a key of an unknown kind: %s", key)
		}
	}
	return out
}

func TestStore(t *testing.T) {
	rdb := startRedis(t)
	s, ctx := NewStore(rdb, config.Auth{KeyPrefix: "gw"}), t.Context()
	before := time.Now()

	a := issue(t, s, "acme")
	forever, err := s.Issue(ctx, IssueOptions{App: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	b := issue(t, s, "beta")

	if parsed, err := ParseToken(a.Secret); err != nil || parsed.ID != a.ID {
		t.Errorf("the token issued reads %v, %v", parsed, err)
	}
	if a.App != "acme" || a.Note != "for acme" || a.Created.Before(before.Truncate(time.Second)) ||
		a.Expires.Sub(a.Created) != time.Hour || !forever.Expires.IsZero() {
		t.Errorf("issued %+v and %+v", a.Token, forever.Token)
	}

	all, _, err := s.Tokens(ctx, "", "", 0)
	if want := []Token{a.Token, forever.Token, b.Token}; err != nil || len(all) != 3 || !reflect.DeepEqual(all[2], want[2]) ||
		!contains(all, want[0]) || !contains(all, want[1]) {
		t.Errorf("Tokens = %+v, %v; want %+v", all, err, want)
	}
	if one, _, err := s.Tokens(ctx, "beta", "", 0); err != nil || !reflect.DeepEqual(one, []Token{b.Token}) {
		t.Errorf("Tokens(beta) = %+v, %v; want %+v", one, err, b.Token)
	}
	if none, _, err := s.Tokens(ctx, "nobody", "", 0); err != nil || len(none) != 0 {
		t.Errorf("Tokens(nobody) = %+v, %v", none, err)
	}

	held := dump(t, rdb)
	for _, issued := range []Issued{a, forever, b} {
		if strings.Contains(held, issued.Secret[secretStart:secretStart+secretLen]) || !strings.Contains(held, issued.ID) {
			t.Errorf("Redis holds a secret, or not the id %s", issued.ID)
		}
	}
	if ttl := rdb.PTTL(ctx, "gw:{acme}:token:"+a.ID).Val(); ttl > 25*time.Hour || ttl < 25*time.Hour-time.Minute {
		t.Errorf("the token vanishes after %s, want a day after its hour", ttl)
	}
	if ttl := rdb.PTTL(ctx, "gw:{acme}:token:"+forever.ID).Val(); ttl >= 0 {
		t.Errorf("the token without an end vanishes after %s", ttl)
	}
	if with, without := rdb.PTTL(ctx, "gw:{beta}:tokens").Val(), rdb.PTTL(ctx, "gw:{acme}:tokens").Val(); with <= 0 || without >= 0 {
		t.Errorf("the indexes vanish after %s and %s", with, without)
	}
}

func TestStoreRevoke(t *testing.T) {
	rdb := startRedis(t)
	s, ctx := NewStore(rdb, config.Auth{}), t.Context()
	a := issue(t, s, "acme")
	b, _ := s.Issue(ctx, IssueOptions{App: "acme"})

	for range 2 { // again does no harm
		if err := s.Revoke(ctx, "acme", a.ID); err != nil {
			t.Fatal(err)
		}
	}
	if got, _, _ := s.Tokens(ctx, "acme", "", 0); len(got) != 2 || got[0].Revoked.IsZero() == got[1].Revoked.IsZero() {
		t.Errorf("after one was revoked: %+v", got)
	}
	if ttl := rdb.PTTL(ctx, "rpcgate:{acme}:token:"+a.ID).Val(); ttl > 25*time.Hour || ttl <= 0 {
		t.Errorf("a revoked token vanishes after %s, want not later than it would have", ttl)
	}
	if err := s.Revoke(ctx, "acme", ""); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := s.Tokens(ctx, "acme", "", 0); len(got) != 2 || got[0].Revoked.IsZero() || got[1].Revoked.IsZero() {
		t.Errorf("after the app was revoked: %+v", got)
	}
	if ttl := rdb.PTTL(ctx, "rpcgate:{acme}:token:"+b.ID).Val(); ttl > tombstone || ttl < tombstone-time.Minute {
		t.Errorf("a revoked token without an end vanishes after %s, want %s", ttl, tombstone)
	}
	for name, err := range map[string]error{
		"another app's token": s.Revoke(ctx, "beta", a.ID),
		"an unknown id":       s.Revoke(ctx, "acme", strings.Repeat("a", idLen)),
		"no id":               s.Revoke(ctx, "acme", "*"),
		"a whole token":       s.Revoke(ctx, "acme", a.Secret),
		"an unknown app":      s.Revoke(ctx, "beta", ""),
	} {
		if !errors.Is(err, ErrNoToken) || strings.Contains(err.Error(), a.Secret) {
			t.Errorf("%s: %v, want %v", name, err, ErrNoToken)
		}
	}
}

func TestStoreRotate(t *testing.T) {
	rdb := startRedis(t)
	s, ctx := NewStore(rdb, config.Auth{}), t.Context()
	old := issue(t, s, "acme")

	next, err := s.Rotate(ctx, "acme", old.ID, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if next.ID == old.ID || next.Note != old.Note || math.Abs(float64(next.Expires.Sub(next.Created)-time.Hour)) > float64(time.Millisecond) {
		t.Errorf("rotated %+v to %+v", old.Token, next.Token)
	}
	listed, _, _ := s.Tokens(ctx, "acme", "", 0)
	if len(listed) != 2 || !contains(listed, next.Token) {
		t.Errorf("listed %+v, want %+v among them", listed, next.Secret)
	}
	for _, l := range listed {
		if l.ID == old.ID && (l.ReplacedBy != next.ID || l.Expires.Sub(next.Created) != time.Minute) {
			t.Errorf("the old one is %+v", l)
		}
	}
	if ttl := rdb.PTTL(ctx, "rpcgate:{acme}:token:"+old.ID).Val(); ttl > 24*time.Hour+time.Minute || ttl <= 24*time.Hour {
		t.Errorf("the old one vanishes after %s, want a day after its minute", ttl)
	}

	last, err := s.Rotate(ctx, "acme", next.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]error{old.ID: ErrReplaced, next.ID: ErrReplaced, strings.Repeat("a", idLen): ErrNoToken, "x": ErrNoToken} {
		if _, err := s.Rotate(ctx, "acme", id, time.Minute); !errors.Is(err, want) {
			t.Errorf("rotating %s: %v, want %v", id, err, want)
		}
	}
	if _, err := s.Rotate(ctx, "acme", last.ID, -1); err == nil {
		t.Error("a grace below zero, and no error")
	}

	// A grace beyond its end does not make a token live longer.
	final, err := s.Rotate(ctx, "acme", last.ID, 100*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if ttl := rdb.PTTL(ctx, "rpcgate:{acme}:token:"+last.ID).Val(); ttl > 25*time.Hour {
		t.Errorf("with a long grace it vanishes after %s", ttl)
	}
	_ = final
	forever, _ := s.Issue(ctx, IssueOptions{App: "forever"})
	if next, err = s.Rotate(ctx, "forever", forever.ID, time.Minute); err != nil || !next.Expires.IsZero() {
		t.Errorf("one without an end is rotated to %+v, %v", next.Token, err)
	}
}

func TestStoreRefusesBadInput(t *testing.T) {
	// No server: bad input is found before Redis is asked.
	rdb := connect(t, "127.0.0.1:1")
	ctx := t.Context()
	for _, cfg := range []config.Auth{{}, goZero()} {
		s := NewStore(rdb, cfg)
		for name, o := range map[string]IssueOptions{
			"no app":        {},
			"a bad app":     {App: "a}b"},
			"a long note":   {App: "acme", Note: strings.Repeat("n", 257)},
			"a broken note": {App: "acme", Note: "a\nb"},
			"TTL below 0":   {App: "acme", TTL: -time.Second},
			"TTL too small": {App: "acme", TTL: time.Microsecond},
		} {
			if _, err := s.Issue(ctx, o); err == nil || strings.Contains(err.Error(), "connect") {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, _, listErr := s.Tokens(ctx, "a b", "", 0)
		_, rotateErr := s.Rotate(ctx, "", "", 0)
		for name, err := range map[string]error{"Tokens": listErr, "Revoke": s.Revoke(ctx, "a:b", ""), "Rotate": rotateErr} {
			if !errors.Is(err, ErrInput) {
				t.Errorf("%s: %v, want %v", name, err, ErrInput)
			}
		}
	}
}

func TestStoreGoZero(t *testing.T) {
	rdb := startRedis(t)
	s, ctx := NewStore(rdb, goZero()), t.Context()
	rdb.HSet(ctx, "rpc:apps", "\x1b]0;x\a", "hostile", "a.b", "useless")
	first, err := s.Issue(ctx, IssueOptions{App: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if got := rdb.HGet(ctx, "rpc:apps", "acme").Val(); got != first.Secret || first.ID != "" {
		t.Error("zRPC would not find the token that was issued")
	}
	rdb.HSet(ctx, "rpc:apps", "beta", "by hand")
	if got, _, err := s.Tokens(ctx, "", "", 0); err != nil || !reflect.DeepEqual(got, []Token{{App: "acme"}, {App: "beta"}}) {
		t.Errorf("Tokens = %+v, %v", got, err)
	}
	if got, _, err := s.Tokens(ctx, "beta", "", 0); err != nil || len(got) != 1 {
		t.Errorf("Tokens(beta) = %+v, %v", got, err)
	}
	next, err := s.Rotate(ctx, "beta", "", 0)
	if err != nil || rdb.HGet(ctx, "rpc:apps", "beta").Val() != next.Secret {
		t.Errorf("Rotate: %v", err)
	}
	if err := s.Revoke(ctx, "beta", ""); err != nil || rdb.HExists(ctx, "rpc:apps", "beta").Val() {
		t.Errorf("Revoke: %v", err)
	}
	fault := func(_ Issued, err error) error { return err }
	for name, tc := range map[string]struct{ got, want error }{
		"a second token":   {fault(s.Issue(ctx, IssueOptions{App: "acme"})), ErrLayout},
		"a note":           {fault(s.Issue(ctx, IssueOptions{App: "new", Note: "n"})), ErrLayout},
		"an expiry":        {fault(s.Issue(ctx, IssueOptions{App: "new", TTL: time.Hour})), ErrLayout},
		"a grace":          {fault(s.Rotate(ctx, "acme", "", time.Minute)), ErrLayout},
		"an id":            {s.Revoke(ctx, "acme", strings.Repeat("a", idLen)), ErrLayout},
		"revoking nothing": {s.Revoke(ctx, "new", ""), ErrNoToken},
		"rotating nothing": {fault(s.Rotate(ctx, "new", "", 0)), ErrNoToken},
	} {
		if !errors.Is(tc.got, tc.want) || strings.Contains(tc.got.Error(), first.Secret) {
			t.Errorf("%s: %v, want %v", name, tc.got, tc.want)
		}
	}
}

// A token that was stored, and its answer lost, is still given to who asked for
// it. (Of a revocation that is done twice nothing is left to know it by.)
func TestStoreGoZeroScriptsThatRunTwice(t *testing.T) {
	s, ctx := NewStore(startRedis(t), goZero()), t.Context()
	s.rdb.AddHook(repeat{})
	issued := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	if got := s.rdb.HGet(ctx, "rpc:apps", "acme").Val(); got != issued.Secret {
		t.Error("another token is there")
	}
	next := must(s.Rotate(ctx, "acme", "", 0))(t)
	if got := s.rdb.HGet(ctx, "rpc:apps", "acme").Val(); got != next.Secret {
		t.Error("another token is there")
	}
}
