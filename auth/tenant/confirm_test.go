package tenant

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

// What is taken back is said to be done once enough replicas have it, and is done
// either way.
func TestConfirmedByReplicas(t *testing.T) {
	master, replica := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	rdb := connect(t, master.Addr)
	master.Replicate(replica)
	for _, confirmed := range []bool{true, false} {
		timeout := 10 * time.Second
		if !confirmed {
			replica.Do("REPLICAOF", "NO", "ONE")
			timeout = 100 * time.Millisecond
		}
		s := NewStore(rdb, config.Auth{ConfirmReplicas: 1, ConfirmTimeout: timeout})
		for name, do := range map[string]func(app, id string) error{
			"revoke":     func(app, id string) error { return s.Revoke(t.Context(), app, id) },
			"revoke-all": func(app, _ string) error { return s.Revoke(t.Context(), app, "") },
			"suspend": func(app, _ string) error {
				_, err := s.ChangeApp(t.Context(), app, AppChange{Status: new(Suspended)})
				return err
			},
			"delete": func(app, _ string) error { return s.DeleteApp(t.Context(), app) },
		} {
			app := fmt.Sprint(name, "-", confirmed)
			issued, err := s.Issue(t.Context(), IssueOptions{App: app})
			if err != nil {
				t.Fatal(err)
			}
			if err := do(app, issued.ID); errors.Is(err, ErrUnconfirmed) == confirmed || confirmed && err != nil {
				t.Errorf("%s, to be confirmed: %v; %v", name, confirmed, err)
			}
			stored, err := Load(t.Context(), rdb, KeysOf(config.Auth{}), app, issued.ID)
			if err == nil && stored.Token.Revoked.IsZero() && stored.App.Status != Suspended {
				t.Errorf("%s was not done", name)
			}
		}
	}
}

func TestConfirmedInACluster(t *testing.T) {
	t.Parallel()
	s := NewStore(startCluster(t), config.Auth{ConfirmReplicas: 1, ConfirmTimeout: 5 * time.Second})
	for _, app := range []string{"acme", "beta", "gamma", "delta"} {
		issued, err := s.Issue(t.Context(), IssueOptions{App: app})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Revoke(t.Context(), app, issued.ID); err != nil {
			t.Errorf("%s: %v", app, err)
		}
	}
}
