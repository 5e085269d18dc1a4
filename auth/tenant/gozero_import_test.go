package tenant

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Plain tokens become hashed ones, stay valid, and what cannot be one is told.
func TestImportGoZero(t *testing.T) {
	s, told := newStore(t)
	ctx := t.Context()
	const key = "rpc:auth"
	own, _ := NewToken()
	rdb := s.rdb
	rdb.HSet(ctx, key, "acme", "plain-secret", "beta", "6jKNZbEpYGeUMAifz10gOnmoty3TV", "a.b", "x", "empty", "", "spaced", "a b",
		"long", strings.Repeat("x", MaxToken+1), "ours", own)
	refused := map[string]string{}
	o := GoZeroOptions{Report: func(app string, _ ImportResult, err error) {
		if err != nil {
			refused[app] = err.Error()
		}
	}}

	o.DryRun = true
	sum, err := ImportGoZero(ctx, rdb, key, s, o)
	if want := (GoZeroSummary{ImportSummary{Created: 2}, 5}); err != nil || sum != want || rdb.DBSize(ctx).Val() != 1 {
		t.Errorf("tried: %+v, %v; %d keys", sum, err, rdb.DBSize(ctx).Val())
	}
	o.DryRun = false
	sum, err = ImportGoZero(ctx, rdb, key, s, o)
	if want := (GoZeroSummary{ImportSummary{Created: 2}, 5}); err != nil || sum != want {
		t.Errorf("imported: %+v, %v", sum, err)
	}
	for app, want := range map[string]string{
		`"a.b"`: "app id", "empty": "empty", "spaced": "space", "long": "256", "ours": "rpcgate's own",
	} {
		if !strings.Contains(refused[app], want) {
			t.Errorf("%s was refused: %q, want %q", app, refused[app], want)
		}
	}
	if strings.Contains(fmt.Sprint(refused), own) {
		t.Error("a report has a token")
	}
	if got := told.all(); !slices.Contains(got, "replaced acme "+ImportedID) || len(got) != 2 {
		t.Errorf("told %q", got)
	}

	plain := must(ParseImported("plain-secret"))(t)
	stored := must(Load(ctx, rdb, s.keys, "acme", plain.ID))(t)
	if stored.Hash != plain.Hash() || !stored.Token.Expires.IsZero() || !stored.Token.Revoked.IsZero() || !stored.AppKnown {
		t.Errorf("loaded %+v", stored)
	}
	for _, k := range rdb.Keys(ctx, "rpcgate:*").Val() {
		if rdb.Type(ctx, k).Val() == "hash" && strings.Contains(fmt.Sprint(rdb.HGetAll(ctx, k).Val()), "plain-secret") {
			t.Errorf("%s has a plain token", k)
		}
	}
	if some, err := Imported(ctx, rdb, s.keys); err != nil || !some {
		t.Errorf("gateways are not told to look for such tokens: %v", err)
	}

	// Again: nothing changes but what was changed there, and nothing that was
	// ended here comes back.
	must(s.ChangeToken(ctx, "acme", ImportedID, TokenChange{Note: ptr("kept")}))(t)
	rdb.HSet(ctx, key, "acme", "another-secret", "gamma", "g")
	if err := s.Revoke(ctx, "beta", ""); err != nil {
		t.Fatal(err)
	}
	told.all()
	sum, err = ImportGoZero(ctx, rdb, key, s, o)
	if want := (GoZeroSummary{ImportSummary{Created: 1, Replaced: 1}, 6}); err != nil || sum != want {
		t.Errorf("imported again: %+v, %v", sum, err)
	}
	stored = must(Load(ctx, rdb, s.keys, "acme", ImportedID))(t)
	if stored.Hash != HashOf("another-secret") || stored.Token.Note != "kept" {
		t.Errorf("loaded %+v", stored)
	}
	if stored = must(Load(ctx, rdb, s.keys, "beta", ImportedID))(t); stored.Token.Revoked.IsZero() {
		t.Error("a revoked token came back")
	}
	next := must(s.Rotate(ctx, "gamma", ImportedID, time.Hour))(t)
	rdb.HSet(ctx, key, "gamma", "changed too late")
	sum, err = ImportGoZero(ctx, rdb, key, s, o)
	if want := (GoZeroSummary{ImportSummary{Kept: 1}, 7}); err != nil || sum != want {
		t.Errorf("imported a third time: %+v, %v", sum, err)
	}
	if token := must(s.Token(ctx, "gamma", ImportedID))(t); token.ReplacedBy != next.ID {
		t.Errorf("the rotated token is %+v", token)
	}
}

// A hash of any size is read in pieces, and imported once.
func TestImportGoZeroMany(t *testing.T) {
	s, _ := newStore(t)
	s.rdb.AddHook(repeat{})
	ctx := t.Context()
	const n = 3*batch + 1
	for i := range n {
		s.rdb.HSet(ctx, "h", "app"+strconv.Itoa(i), "secret"+strconv.Itoa(i))
	}
	sum, err := ImportGoZero(ctx, s.rdb, "h", s, GoZeroOptions{})
	if err != nil || sum.Created+sum.Kept < n || sum.Refused != 0 {
		t.Errorf("imported %+v, %v", sum, err)
	}
	all := readAll(t, s, "", 400)
	if len(all) != n {
		t.Errorf("%d tokens are listed", len(all))
	}
	if _, err := ImportGoZero(ctx, s.rdb, "h", NewStore(s.rdb, goZero()), GoZeroOptions{}); !errors.Is(err, ErrLayout) {
		t.Errorf("into zRPC's own layout: %v", err)
	}
}

func TestParseImported(t *testing.T) {
	own, _ := NewToken()
	for _, text := range []string{"", "a b", own, "rpg_", strings.Repeat("x", MaxToken+1), "\x00"} {
		if got, err := ParseImported(text); !errors.Is(err, ErrInput) || got != (ParsedToken{}) {
			t.Errorf("%q reads %v, %v", text, got, err)
		}
	}
	if !ValidID(ImportedID) {
		t.Error("the id of imported tokens is none")
	}
}
