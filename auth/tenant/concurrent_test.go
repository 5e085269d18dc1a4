package tenant

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/config"
)

// Operators that work on the same apps and tokens at once do not undo each
// other unseen: on one server, and on a cluster.
func TestOperatorsAtOnce(t *testing.T) {
	for name, start := range map[string]func(*testing.T) redis.UniversalClient{
		"server":  func(t *testing.T) redis.UniversalClient { return startRedis(t) },
		"cluster": startCluster,
	} {
		t.Run(name, func(t *testing.T) {
			rdb := start(t)
			for name, test := range map[string]func(*testing.T, *Store){
				"changes of an app": changeAtOnce, "rotations of a token": rotateAtOnce,
				"creations of an app": createAtOnce, "issue and revoke all": revokeAllAtOnce,
				"delete and issue": deleteAtOnce, "everything": everythingAtOnce,
			} {
				t.Run(name, func(t *testing.T) {
					test(t, NewStore(rdb, config.Auth{KeyPrefix: strings.ReplaceAll(name, " ", "-")}))
				})
			}
		})
	}
}

const operators = 8

// Each reads, adds one, and writes if nobody else has: none of it is lost.
func changeAtOnce(t *testing.T, s *Store) {
	ctx := t.Context()
	must(s.CreateApp(ctx, App{ID: "acme"}))(t)
	token := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	const each = 20
	var conflicts atomic.Int64
	atOnce(operators, func(int) {
		for done := 0; done < each; {
			a, err := s.App(ctx, "acme")
			if err == nil {
				_, err = s.ChangeApp(ctx, "acme", AppChange{Weight: ptr(a.Weight + 1), IfVersion: a.Version})
			}
			switch {
			case errors.Is(err, ErrConflict):
				conflicts.Add(1)
			case err != nil:
				t.Error(err)
				return
			default:
				done++
			}
		}
		for done := 0; done < each; {
			now, err := s.Token(ctx, "acme", token.ID)
			if err == nil {
				_, err = s.ChangeToken(ctx, "acme", token.ID, TokenChange{
					Limits: &config.Limits{Rate: now.Limits.Rate + 1}, IfVersion: now.Version,
				})
			}
			switch {
			case errors.Is(err, ErrConflict):
				conflicts.Add(1)
			case err != nil:
				t.Error(err)
				return
			default:
				done++
			}
		}
	})
	a, now := must(s.App(ctx, "acme"))(t), must(s.Token(ctx, "acme", token.ID))(t)
	if a.Weight != operators*each || now.Limits.Rate != operators*each || a.Version != operators*each+1 || now.Version != operators*each+1 {
		t.Errorf("after %d changes each, with %d conflicts: weight %d, rate %d", operators*each, conflicts.Load(), a.Weight, now.Limits.Rate)
	}
}

func createAtOnce(t *testing.T, s *Store) {
	var made atomic.Int64
	atOnce(operators, func(i int) {
		switch _, err := s.CreateApp(t.Context(), App{ID: "acme", Name: strconv.Itoa(i)}); {
		case err == nil:
			made.Add(1)
		case !errors.Is(err, ErrAppExists):
			t.Error(err)
		}
	})
	if made.Load() != 1 {
		t.Errorf("it was created %d times", made.Load())
	}
}

// One of many rotations wins, and there are two live secrets then, not more.
func rotateAtOnce(t *testing.T, s *Store) {
	ctx := t.Context()
	old := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	var won atomic.Int64
	atOnce(operators, func(int) {
		switch _, err := s.Rotate(ctx, "acme", old.ID, time.Hour); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, ErrReplaced):
			t.Error(err)
		}
	})
	if n := len(readAll(t, s, "acme", 100)); won.Load() != 1 || n != 2 {
		t.Errorf("%d rotations were done, and there are %d tokens", won.Load(), n)
	}
}

// What was issued before a revocation of all began is dead when it is done, and
// what was issued after it was done lives.
func revokeAllAtOnce(t *testing.T, s *Store) {
	ctx := t.Context()
	must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	var mu sync.Mutex
	before, after := map[string]bool{}, map[string]bool{}
	var done atomic.Bool
	var began atomic.Bool
	atOnce(operators, func(i int) {
		if i == 0 {
			for range 5 {
				if err := s.Revoke(ctx, "acme", ""); err != nil {
					t.Error(err)
				}
			}
			began.Store(true)
			if err := s.Revoke(ctx, "acme", ""); err != nil {
				t.Error(err)
			}
			done.Store(true)
			return
		}
		for range 40 {
			late := done.Load()
			issued, err := s.Issue(ctx, IssueOptions{App: "acme"})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			switch {
			case !began.Load():
				before[issued.ID] = true
			case late:
				after[issued.ID] = true
			}
			mu.Unlock()
		}
	})
	for id := range before {
		if token, err := s.Token(ctx, "acme", id); err != nil || token.Revoked.IsZero() {
			t.Errorf("issued before all were revoked, and alive: %+v, %v", token, err)
		}
	}
	for id := range after {
		if token, err := s.Token(ctx, "acme", id); err != nil || !token.Revoked.IsZero() {
			t.Errorf("issued after all were revoked, and dead: %+v, %v", token, err)
		}
	}
	t.Logf("%d were issued before, %d after", len(before), len(after))
}

// An app that is deleted over and over while tokens are issued for it ends with
// an app that is listed if and only if it has a record, and no token of an
// earlier life alive.
func deleteAtOnce(t *testing.T, s *Store) {
	ctx := t.Context()
	atOnce(operators, func(i int) {
		for range 20 {
			var err error
			if i < 2 {
				err = s.DeleteApp(ctx, "acme")
			} else {
				_, err = s.Issue(ctx, IssueOptions{App: "acme"})
			}
			if err != nil && !errors.Is(err, ErrNoApp) {
				t.Error(err)
			}
		}
	})
	last := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	apps, _, err := s.Apps(ctx, "", 0)
	if err != nil || len(apps) != 1 || apps[0].Created.IsZero() {
		t.Errorf("apps are %+v, %v", apps, err)
	}
	if token, err := s.Token(ctx, "acme", last.ID); err != nil || !token.Revoked.IsZero() {
		t.Errorf("the last token is %+v, %v", token, err)
	}
	if err := s.DeleteApp(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	if all := readAll(t, s, "", 100); len(all) != 0 {
		t.Errorf("%d tokens are left", len(all))
	}
	if apps, _, err := s.Apps(ctx, "", 0); err != nil || len(apps) != 0 {
		t.Errorf("apps are %+v, %v", apps, err)
	}
}

// All at once over a few apps: nothing fails that has no reason to, and both
// indexes and the records agree in the end.
func everythingAtOnce(t *testing.T, s *Store) {
	ctx := t.Context()
	apps := []string{"a", "b", "c", "d", "e"}
	expected := func(err error) bool {
		for _, kind := range []error{nil, ErrNoApp, ErrNoToken, ErrReplaced, ErrConflict, ErrAppExists} {
			if errors.Is(err, kind) {
				return true
			}
		}
		return false
	}
	atOnce(operators, func(i int) {
		var mine []Issued
		for k := range 60 {
			app := apps[(i+k)%len(apps)]
			var err error
			switch (i * k) % 7 {
			case 0, 1, 2:
				var issued Issued
				if issued, err = s.Issue(ctx, IssueOptions{App: app, TTL: time.Hour, Note: fmt.Sprint(i, k)}); err == nil {
					mine = append(mine, issued)
				}
			case 3:
				_, err = s.ChangeApp(ctx, app, AppChange{Name: ptr(fmt.Sprint(i, k))})
			case 4:
				if len(mine) > 0 {
					var issued Issued
					old := mine[len(mine)-1]
					if issued, err = s.Rotate(ctx, old.App, old.ID, time.Minute*time.Duration(k%2)); err == nil {
						mine = append(mine, issued)
					}
				}
			case 5:
				if len(mine) > 0 {
					old := mine[k%len(mine)]
					_, err = s.ChangeToken(ctx, old.App, old.ID, TokenChange{Expires: ptr(time.Now().Add(time.Hour))})
				}
			case 6:
				switch k % 3 {
				case 0:
					err = s.DeleteApp(ctx, app)
				case 1:
					err = s.Revoke(ctx, app, "")
				default:
					if len(mine) > 0 {
						err = s.Revoke(ctx, mine[0].App, mine[0].ID)
					}
				}
			}
			if !expected(err) {
				t.Errorf("operator %d, step %d: %v", i, k, err)
			}
		}
	})
	for _, app := range apps {
		ends, ids := s.rdb.ZRange(ctx, s.keys.Tokens(app), 0, -1).Val(), s.rdb.ZRange(ctx, s.keys.IDs(app), 0, -1).Val()
		if len(ends) != len(ids) {
			t.Errorf("app %s has %d tokens by end and %d by id", app, len(ends), len(ids))
		}
		for _, id := range ids {
			if _, err := s.Token(ctx, app, id); err != nil {
				t.Errorf("listed and not there: %v", err)
			}
		}
	}
	listed, _, err := s.Apps(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, a := range listed {
		known[a.ID] = true
	}
	for _, app := range apps {
		if _, err := s.App(ctx, app); (err == nil) != known[app] {
			t.Errorf("app %s is listed: %t; read: %v", app, known[app], err)
		}
	}
}
