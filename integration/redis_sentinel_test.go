package integration_test

import (
	"fmt"
	"testing"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

// A master is lost, and its replica takes over. Who is remembered notices
// nothing; who is not is told to come again until then.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.Options{})
	g := startTenants(t, sentinelsAt(s), shortLife)
	lost := map[*redistest.Server]bool{}
	for _, fault := range []struct {
		name  string
		begin func(*redistest.Server)
	}{
		{"killed", (*redistest.Server).Kill},
		{"paused", (*redistest.Server).Pause},
	} {
		t.Run(fault.name, func(t *testing.T) {
			old := s.Master()
			lost[old] = true
			unseen := g.issue(t, g.app)
			replicated(t, s, old, lost)
			callers := startLoad(t, 2, g.echoing())

			fault.begin(old)
			comesToBy(t, g.with(unseen), "OK", "AUTH_UNAVAILABLE")
			ends(t, g.with(g.gone), "TOKEN_REVOKED")
			s.AwaitMasterOtherThan(old)
			g.serves(t, g.app)
			callers.neverWait(t)

			if fault.name == "paused" {
				// It comes back, and takes itself for the master for a while.
				old.Resume()
				for range 10 {
					g.serves(t, g.app)
				}
				ends(t, g.with(g.gone), "TOKEN_REVOKED")
			}
		})
	}
}

// replicated waits until all servers have what the master has.
func replicated(t testing.TB, s *redistest.Sentinels, master *redistest.Server, lost map[*redistest.Server]bool) {
	t.Helper()
	want := master.Size()
	for _, server := range s.Servers {
		if lost[server] {
			continue
		}
		gatewaytest.Eventually(t, func() error {
			if got := server.Size(); got != want {
				return fmt.Errorf("%s has %d keys of %d", server.Addr, got, want)
			}
			return nil
		})
	}
}
