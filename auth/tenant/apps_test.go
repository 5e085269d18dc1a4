package tenant

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestApps(t *testing.T) {
	s, told := newStore(t)
	ctx := t.Context()
	want := App{
		ID: "acme", Name: "Acme, Inc.", Scopes: []string{"shop.OrderService/*", "GET /v1/**"}, Priority: "high", Weight: 3, Contact: "ops@acme",
		Limits: config.Limits{Rate: 10, Per: time.Minute, Daily: 1000, MaxBody: 1 << 20},
	}
	made := must(s.CreateApp(ctx, want))(t)
	want.Status, want.Version, want.Created, want.Updated = Active, 1, made.Created, made.Updated
	if !reflect.DeepEqual(made, want) || made.Created.IsZero() {
		t.Errorf("created %+v, want %+v", made, want)
	}
	if got, err := s.App(ctx, "acme"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
	if _, err := s.CreateApp(ctx, App{ID: "acme"}); !errors.Is(err, ErrAppExists) {
		t.Errorf("created again: %v", err)
	}

	changed := must(s.ChangeApp(ctx, "acme", AppChange{Status: ptr(Suspended), Scopes: &[]string{}, Weight: ptr(0), IfVersion: 1}))(t)
	if changed.Status != Suspended || changed.Scopes != nil || changed.Weight != 0 || changed.Version != 2 || changed.Name != want.Name ||
		changed.Limits != want.Limits || !changed.Created.Equal(want.Created) {
		t.Errorf("changed to %+v", changed)
	}
	if _, err := s.ChangeApp(ctx, "acme", AppChange{Name: ptr("x"), IfVersion: 1}); !errors.Is(err, ErrConflict) {
		t.Errorf("a change of an old version: %v", err)
	}
	changed = must(s.ChangeApp(ctx, "acme", AppChange{Status: ptr(Active), Limits: &config.Limits{}}))(t)
	if changed.Status != Active || changed.Limits != (config.Limits{}) || changed.Version != 3 {
		t.Errorf("changed to %+v", changed)
	}
	if got, want := told.all(), []string{"changed acme *", "revoked acme *", "changed acme *"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	for name, err := range map[string]error{
		"read":   err1(s.App(ctx, "nobody")),
		"change": err1(s.ChangeApp(ctx, "nobody", AppChange{})),
		"delete": s.DeleteApp(ctx, "nobody"),
	} {
		if !errors.Is(err, ErrNoApp) {
			t.Errorf("%s of what is not there: %v", name, err)
		}
	}
}

func TestAppsRefuse(t *testing.T) {
	s, _ := newStore(t)
	many := make([]string, 129)
	for i := range many {
		many[i] = fmt.Sprintf("a.B/M%d", i)
	}
	for name, tc := range map[string]struct {
		a     App
		field string
	}{
		"an id":             {App{ID: "a.b"}, "app"},
		"a long name":       {App{ID: "a", Name: strings.Repeat("n", MaxText+1)}, "name"},
		"a name in lines":   {App{ID: "a", Name: "a\nb"}, "name"},
		"no text":           {App{ID: "a", Contact: "\xff"}, "contact"},
		"a status":          {App{ID: "a", Status: "asleep"}, "status"},
		"a priority":        {App{ID: "a", Priority: "highest"}, "priority"},
		"a weight below 0":  {App{ID: "a", Weight: -1}, "weight"},
		"too large a weigh": {App{ID: "a", Weight: MaxWeight + 1}, "weight"},
		"a scope":           {App{ID: "a", Scopes: []string{"/v1"}}, "scopes"},
		"a list in a scope": {App{ID: "a", Scopes: []string{"a.B/C,a.B/D"}}, "scopes"},
		"many scopes":       {App{ID: "a", Scopes: many}, "scopes"},
		"a rate":            {App{ID: "a", Limits: config.Limits{Rate: -1}}, "limits.rate"},
		"a period":          {App{ID: "a", Limits: config.Limits{Rate: 1, Per: time.Millisecond}}, "limits.per"},
		"a body":            {App{ID: "a", Limits: config.Limits{MaxBody: 2 << 30}}, "limits.max_body"},
		"a lifetime":        {App{ID: "a", Limits: config.Limits{StreamLifetime: -1}}, "limits.stream_lifetime"},
	} {
		_, err := s.CreateApp(t.Context(), tc.a)
		var input *InputError
		if !errors.As(err, &input) || !errors.Is(err, ErrInput) || input.Field != tc.field || len(err.Error()) > 200 {
			t.Errorf("%s: %v, want a fault of %s", name, err, tc.field)
		}
	}
	if held := s.rdb.DBSize(t.Context()).Val(); held != 0 {
		t.Errorf("what was refused left %d keys", held)
	}
}

// An app that an older version knows by its tokens alone is active, may do
// everything, and gets a record when it is changed.
func TestAppWithoutRecord(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	old := issueAsBefore(t, s, "acme", time.Time{})
	if got := must(s.App(ctx, "acme"))(t); !reflect.DeepEqual(got, App{ID: "acme", Status: Active}) {
		t.Errorf("read %+v", got)
	}
	stored := must(Load(ctx, s.rdb, s.keys, "acme", old.ID))(t)
	if stored.AppKnown || stored.App.Status != Active || !stored.Token.Revoked.IsZero() || stored.Hash != old.Hash() {
		t.Errorf("loaded %+v", stored)
	}
	if page, next, err := s.Apps(ctx, "", 0); err != nil || next != "" || len(page) != 1 || page[0].ID != "acme" {
		t.Errorf("listed %+v, %q, %v", page, next, err)
	}
	if a := must(s.ChangeApp(ctx, "acme", AppChange{Status: ptr(Suspended)}))(t); a.Version != 1 || a.Created.IsZero() {
		t.Errorf("changed to %+v", a)
	}
	if stored = must(Load(ctx, s.rdb, s.keys, "acme", old.ID))(t); !stored.AppKnown || stored.App.Status != Suspended {
		t.Errorf("loaded %+v", stored)
	}
	if issued := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t); issued.NewApp {
		t.Error("the app was taken for a new one")
	}
	if err := s.DeleteApp(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	if keys := s.rdb.Keys(ctx, "*").Val(); len(keys) != 0 {
		t.Errorf("what is left: %q", keys)
	}
}

// issueAsBefore writes a token as the version did that knew no records of apps.
func issueAsBefore(t *testing.T, s *Store, app string, expires time.Time) ParsedToken {
	t.Helper()
	_, token := NewToken()
	ctx := t.Context()
	score, end := "+inf", "0"
	if !expires.IsZero() {
		end, score = formatInstant(expires), formatInstant(expires.Add(24*time.Hour))
	}
	for _, cmd := range [][]any{
		{"SADD", s.keys.Apps(), app},
		{"HSET", s.keys.Token(app, token.ID), "hash", fmt.Sprintf("%x", token.hash), "created", 1764500000000, "expires", end, "note", "old"},
		{"ZADD", s.keys.Tokens(app), score, token.ID},
	} {
		if err := s.rdb.Do(ctx, cmd...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return token
}

// Deleted is deleted: of what was issued before, nothing comes to life in the
// app's next life, however far the cleaning up came.
func TestDeleteApp(t *testing.T) {
	s, told := newStore(t)
	ctx := t.Context()
	var old []Issued
	for range 3 {
		old = append(old, must(s.Issue(ctx, IssueOptions{App: "acme"}))(t))
	}
	alive := func(i Issued) bool {
		stored, err := Load(ctx, s.rdb, s.keys, i.App, i.ID)
		return err == nil && stored.Token.Revoked.IsZero()
	}
	told.all()
	// Cut off after the first step.
	if answer, err := s.run(ctx, deleteAppScript, "acme", nil, Message{Kind: KindRevoked, App: "acme"}, newOp()); err != nil || answer.word != "ok" {
		t.Fatal(answer, err)
	}
	if got := told.all(); !slices.Equal(got, []string{"revoked acme *"}) {
		t.Errorf("told %q", got)
	}
	if _, err := s.App(ctx, "acme"); !errors.Is(err, ErrNoApp) {
		t.Errorf("a deleted app reads %v", err)
	}
	if page, _, _ := s.Apps(ctx, "", 0); len(page) != 0 {
		t.Errorf("a deleted app is listed: %+v", page)
	}
	if err := s.Revoke(ctx, "acme", ""); !errors.Is(err, ErrNoToken) {
		t.Errorf("revoking a deleted app's tokens: %v", err)
	}
	again := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	if !again.NewApp || !alive(again) {
		t.Errorf("issued %+v", again)
	}
	for _, i := range old {
		if alive(i) {
			t.Errorf("token %s lives again", i.ID)
		}
		if _, err := s.Rotate(ctx, "acme", i.ID, time.Hour); !errors.Is(err, ErrReplaced) {
			t.Errorf("rotating a dead token: %v", err)
		}
		if _, err := s.ChangeToken(ctx, "acme", i.ID, TokenChange{Note: ptr("x")}); !errors.Is(err, ErrReplaced) {
			t.Errorf("changing a dead token: %v", err)
		}
	}
	// The whole of it: a life of its own again.
	if err := s.DeleteApp(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	if keys := s.rdb.Keys(ctx, "*").Val(); len(keys) != 0 {
		t.Errorf("what is left: %q", keys)
	}
	must(s.CreateApp(ctx, App{ID: "acme"}))(t)
	for _, i := range append(old, again) {
		if alive(i) {
			t.Errorf("token %s lives again", i.ID)
		}
	}
}

// What was begun is ended by another DeleteApp.
func TestDeleteAppAgain(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	must(s.CreateApp(ctx, App{ID: "acme"}))(t)
	for range 2*batch + 1 {
		must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	}
	limited, cancel := context.WithCancel(ctx)
	s.rdb.AddHook(cancelAt{cancel: cancel, command: "zrangebylex", n: ptr(2)})
	if err := s.DeleteApp(limited, "acme"); !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted deletion: %v", err)
	}
	if n := s.rdb.ZCard(ctx, s.keys.Tokens("acme")).Val(); n == 0 || n == 2*batch+1 {
		t.Fatalf("%d tokens are left: the interruption came at the wrong time", n)
	}
	if err := s.DeleteApp(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	if keys := s.rdb.Keys(ctx, "*").Val(); len(keys) != 0 {
		t.Errorf("%d keys are left", len(keys))
	}
}

// What is not known of an app's status lets nobody call.
func TestUnknownStatus(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	issued := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	must(s.rdb.HSet(ctx, s.keys.App("acme"), "status", "frozen").Result())(t)
	if stored, err := Load(ctx, s.rdb, s.keys, "acme", issued.ID); err == nil || errors.Is(err, ErrNoToken) {
		t.Errorf("loaded %+v, %v", stored, err)
	}
}
