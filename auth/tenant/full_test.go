package tenant

import (
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

// A Redis that is full takes nothing new, but an operator can take back what was
// given out.
func TestFullRedis(t *testing.T) {
	rdb := startRedis(t)
	s := NewStore(rdb, config.Auth{})
	ctx := t.Context()
	must(s.CreateApp(ctx, App{ID: "acme"}))(t)
	one, two := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t), must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	other := must(s.Issue(ctx, IssueOptions{App: "other"}))(t)
	if err := rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Issue(ctx, IssueOptions{App: "acme"}); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("issued in a full Redis: %v", err)
	}
	revoked := func(i Issued) bool {
		stored := must(Load(ctx, rdb, s.keys, i.App, i.ID))(t)
		return !stored.Token.Revoked.IsZero()
	}
	if err := s.Revoke(ctx, "acme", one.ID); err != nil || !revoked(one) {
		t.Errorf("revoke: %v", err)
	}
	if a, err := s.ChangeApp(ctx, "other", AppChange{Status: ptr(Suspended)}); err != nil || a.Status != Suspended {
		t.Errorf("suspend: %v", err)
	}
	if err := s.Revoke(ctx, "acme", ""); err != nil || !revoked(two) {
		t.Errorf("revoke all: %v", err)
	}
	if err := s.DeleteApp(ctx, "other"); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := Load(ctx, rdb, s.keys, "other", other.ID); err == nil {
		t.Error("a token outlived its app")
	}
}
