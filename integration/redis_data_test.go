package integration_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

// A full Redis that evicts nothing answers look-ups as ever. What would need room
// is refused, and says why.
func TestRedisIsFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	g := startTenants(t, singleAt(server.Addr), shortLife)
	unseen := g.issue(t, g.app)
	callers := startLoad(t, 2, g.echoing())
	server.Do("CONFIG", "SET", "maxmemory", "1")
	must(t, g.with(unseen))
	ends(t, g.with(g.gone), "TOKEN_REVOKED")
	ends(t, g.echoingAs("nobody", madeUpToken(1)), "TOKEN_INVALID")
	if _, err := g.store.Issue(t.Context(), tenant.IssueOptions{App: g.app}); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("issuing into a full Redis: %v", err)
	}
	_, stderr, exit := gatewaytest.Run(t, "token", "issue", "--app", g.app, "--redis", server.Addr)
	if exit != 1 || !strings.Contains(stderr, "OOM") {
		t.Errorf("the command exits with %d: %s", exit, stderr)
	}
	g.revokes(t, unseen)
	comesTo(t, g.with(unseen), "TOKEN_REVOKED")
	server.Do("CONFIG", "SET", "maxmemory", "0")
	g.serves(t, g.app)
	callers.neverWait(t)
}

// All data is lost and nobody says so: what is remembered serves until it is
// looked up again, within its time; what was revoked does not come back.
func TestRedisIsFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	g := startTenants(t, singleAt(server.Addr), "auth: {cache: {ttl: 2s}}\n")
	unseen := g.issue(t, g.app)
	must(t, g.echoing())
	server.Do("FLUSHALL")
	flushed := time.Now()
	ends(t, g.with(unseen), "TOKEN_INVALID")
	ends(t, g.with(g.gone), "TOKEN_REVOKED")
	comesToBy(t, g.echoing(), "TOKEN_INVALID", "OK")
	if took := time.Since(flushed); took > 2*time.Second+slack {
		t.Errorf("the token worked for another %v", took)
	}
	comesTo(t, g.with(g.gone), "TOKEN_INVALID")
	g.serves(t, g.app)
}

// A replica that has not heard of a revocation takes the master's place. Gateways
// that knew go on refusing. (One that starts afterwards cannot know.)
func TestReplicaThatMissedARevocation(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	network := startProxy(t, master.Addr)
	at := singleAt(network.Addr)
	g := startTenants(t, at, shortLife)
	heard, kept := g.issue(t, g.app), g.issue(t, g.app)
	must(t, g.with(heard))
	master.Replicate(replica)
	replica.Do("REPLICAOF", "NO", "ONE") // from now on it misses what happens

	g.revokes(t, heard)
	comesTo(t, g.with(heard), "TOKEN_REVOKED")
	network.Lead(replica.Addr)
	g.heard(t, true)
	stays(t, time.Second, func() error {
		if got := reasonFor(g.with(heard)(limited(t))); got != "TOKEN_REVOKED" {
			return errors.New("a revoked token came back to life: " + got)
		}
		return nil
	})
	g.WaitLog("has forgotten", tokenID(heard.Secret))
	must(t, g.with(kept))
	must(t, g.echoing())
	ends(t, g.with(g.gone), "TOKEN_REVOKED")
	g.serves(t, g.app)
}

// Redis forgets its scripts, as it does when it restarts or fails over.
func TestRedisForgetsScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	g := startTenants(t, singleAt(server.Addr), shortLife+"limits: {app: {rate: 100000, burst: 100000, daily: 1000000}}\n")
	callers := startLoad(t, 2, g.echoing())
	for range 20 {
		server.Do("SCRIPT", "FLUSH")
		g.serves(t, g.app)
		server.Do("SCRIPT", "FLUSH")
		token := g.issue(t, g.app)
		server.Do("SCRIPT", "FLUSH")
		next, err := g.store.Rotate(t.Context(), g.app, token.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		must(t, g.with(next))
	}
	callers.neverWait(t)
}
