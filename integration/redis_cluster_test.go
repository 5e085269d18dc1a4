package integration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

// appsByMaster names an app for each master of a cluster, on which it lies.
func appsByMaster(c *redistest.Cluster) (apps [3]string) {
	for i, found := 0, 0; found < len(apps); i++ {
		app := fmt.Sprint("app-", i)
		if home := redistest.Home(c.Slot("rpcgate:{" + app + "}:tokens")); apps[home] == "" {
			apps[home] = app
			found++
		}
	}
	return apps
}

// A slot moves, a master is lost, and then its replica: apps that lie elsewhere
// notice nothing, nor does who is remembered.
func TestClusterMovesAndLosesMasters(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	g := startTenants(t, clusterAt(c), shortLife)
	apps := appsByMaster(c)
	// The set of all apps is needed to issue: it must not lie on what is lost.
	home := redistest.Home(c.Slot("rpcgate:apps"))
	lost, moved, other := (home+1)%3, (home+2)%3, home
	var calls []callFunc
	for _, app := range apps {
		calls = append(calls, g.with(g.issue(t, app)))
	}
	callers := startLoad(t, 1, calls...)

	t.Run("slot moving", func(t *testing.T) {
		app := apps[moved]
		const stages = 12
		var unseen []tenant.Issued
		for range stages {
			unseen = append(unseen, g.issue(t, app))
		}
		issued, refused := 0, 0
		c.Move(c.Slot("rpcgate:{"+app+"}:tokens"), c.Masters[moved], c.Masters[other], func() {
			if len(unseen) > 0 {
				comesToBy(t, g.with(unseen[0]), "OK", "AUTH_UNAVAILABLE")
				unseen = unseen[1:]
			}
			switch _, err := g.store.Issue(t.Context(), tenant.IssueOptions{App: app}); {
			case err == nil:
				issued++
			case strings.Contains(err.Error(), "TRYAGAIN"):
				refused++
			default:
				t.Errorf("issuing while the slot moves: %v", err)
			}
		})
		t.Logf("while the slot moved %d tokens were issued, %d times it was to be tried again", issued, refused)
		g.serves(t, app)
	})

	t.Run("master lost", func(t *testing.T) {
		unseen, elsewhere := g.issue(t, apps[lost]), g.issue(t, apps[other])
		awaitReplica(t, c, lost)
		c.Masters[lost].Kill()
		must(t, g.with(elsewhere))
		comesToBy(t, g.with(unseen), "OK", "AUTH_UNAVAILABLE")
		c.AwaitFailover(lost)
		g.serves(t, apps[lost])
	})

	t.Run("no replica left", func(t *testing.T) {
		unseen := g.issue(t, apps[lost])
		c.Replicas[lost].Kill()
		for range 3 {
			within(t, 2*slack, g.with(unseen), "AUTH_UNAVAILABLE")
			g.serves(t, apps[other])
			g.serves(t, apps[moved])
		}
		if _, err := g.store.Issue(t.Context(), tenant.IssueOptions{App: apps[lost]}); err == nil {
			t.Error("a token is issued into a slot that nobody serves")
		}
		ends(t, g.with(g.gone), "TOKEN_REVOKED")
	})
	callers.neverWait(t)
}

// awaitReplica waits until a master's replica has what it has.
func awaitReplica(t testing.TB, c *redistest.Cluster, number int) {
	t.Helper()
	want := c.Masters[number].Size()
	for got := c.Replicas[number].Size(); got != want; got = c.Replicas[number].Size() {
		if t.Context().Err() != nil {
			t.FailNow()
		}
	}
}
