package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

// aclLine is the ACL user that docs/redis.md tells of, as the words of a command.
func aclLine(t testing.TB, password string) []any {
	t.Helper()
	text, err := os.ReadFile("../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^\s*(ACL SETUSER rpcgate .*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatal("docs/redis.md names no ACL user")
	}
	var words []any
	for _, word := range strings.Fields(string(line[1])) {
		words = append(words, strings.ReplaceAll(word, "PASSWORD", password))
	}
	return words
}

// The documented user's rights are enough for all that the gateway and its
// commands do, over TLS; and what its password, its certificate or its right to
// the channel do when they change under a gateway that runs.
func TestRedisOverTLSWithAnACLUser(t *testing.T) {
	t.Parallel()
	ca := redistest.NewAuthority(t)
	server, tlsAddr := redistest.StartTLS(t, ca, ca.Issue("redis"), redistest.Options{})
	server.Do(aclLine(t, "pass-1")...)
	client := ca.Issue("gateway")
	cfg := redisConfig(config.Redis{
		Addresses: []string{tlsAddr}, Username: "rpcgate", Password: "pass-1",
		TLS: &config.ClientTLS{CAFile: ca.File, CertFile: client.CertFile, KeyFile: client.KeyFile},
	})
	yaml := fmt.Sprintf("addresses: [%q], username: rpcgate, password: pass-1, tls: {ca_file: %q, cert_file: %q, key_file: %q}",
		tlsAddr, ca.File, client.CertFile, client.KeyFile)
	g := startTenants(t, redisAt{yaml, cfg}, shortLife+"limits: {app: {rate: 100000, burst: 100000, daily: 1000000}}\n")

	t.Run("all commands", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "gateway.yaml")
		if err := os.WriteFile(file, []byte("redis: {"+yaml+"}\nbackends: [{name: echo, endpoints: ['127.0.0.1:1'], reflection: true}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		run := func(args ...string) string {
			t.Helper()
			stdout, stderr, exit := gatewaytest.Run(t, append(args, "-c", file)...)
			if exit != 0 {
				t.Errorf("gateway %s: %s%s", strings.Join(args, " "), stdout, stderr)
			}
			return stdout
		}
		run("app", "create", "--app", "zeta", "--scope", "GET /v1/**")
		run("app", "set", "--app", "zeta", "--name", "Zeta")
		run("app", "list")
		run("app", "show", "--app", "zeta")
		token := strings.TrimSpace(run("token", "issue", "--app", "zeta"))
		run("token", "list", "--app", "zeta")
		run("token", "rotate", "--app", "zeta", "--id", tokenID(token), "--grace", "1h")
		run("token", "revoke", "--app", "zeta", "--id", tokenID(token))
		run("token", "revoke", "--app", "zeta", "--all")
		run("app", "suspend", "--app", "zeta")
		run("app", "resume", "--app", "zeta")
		run("app", "delete", "--app", "zeta")
		for range 20 {
			must(t, g.echoing())
		}
		g.serves(t, g.app)
		allowed(t, server)
	})

	t.Run("wrong password", func(t *testing.T) {
		unseen := g.issue(t, g.app)
		server.Do("ACL", "SETUSER", "rpcgate", "resetpass", ">pass-2")
		killClients(server)
		comesTo(t, g.with(unseen), "AUTH_UNAVAILABLE")
		gatewaytest.Eventually(t, func() error {
			if !strings.Contains(g.Output(), "WRONGPASS") {
				return fmt.Errorf("the log does not say why")
			}
			return nil
		})
		if strings.Contains(g.Output(), "pass-1") {
			t.Error("the log shows the password")
		}
		must(t, g.echoing())
		ends(t, g.with(g.gone), "TOKEN_REVOKED")
		server.Do("ACL", "SETUSER", "rpcgate", "resetpass", ">pass-1")
		mended := time.Now()
		comesTo(t, g.with(unseen), "OK")
		if took := time.Since(mended); took > slack {
			t.Errorf("it took %v to recover", took)
		}
		g.serves(t, g.app)
	})

	t.Run("rotated certificates", func(t *testing.T) {
		for range 2 {
			server.UseCertificate(ca.Issue("redis"))
			ca.Issue("gateway") // the gateway's own, in the same file
			killClients(server)
			must(t, g.echoing())
			comesToBy(t, g.with(g.issue(t, g.app)), "OK", "AUTH_UNAVAILABLE")
			g.serves(t, g.app)
		}
		// One that the gateway has no reason to trust.
		unseen := g.issue(t, g.app)
		server.UseCertificate(redistest.NewAuthority(t).Issue("redis"))
		killClients(server)
		comesTo(t, g.with(unseen), "AUTH_UNAVAILABLE")
		must(t, g.echoing())
		server.UseCertificate(ca.Issue("redis"))
		comesTo(t, g.with(unseen), "OK")
		g.serves(t, g.app)
	})

	t.Run("no right to the channel", func(t *testing.T) {
		server.Do("ACL", "SETUSER", "rpcgate", "resetchannels")
		g.heard(t, false)
		token := g.issue(t, g.app)
		must(t, g.with(token))
		// As a revocation by who may publish.
		admin := openStore(t, singleAt(server.Addr).store)
		if err := admin.Revoke(t.Context(), token.App, token.ID); err != nil {
			t.Fatal(err)
		}
		revoked := time.Now()
		comesTo(t, g.with(token), "TOKEN_REVOKED")
		if took := time.Since(revoked); took > time.Second+slack {
			t.Errorf("the token still worked %v after it was revoked", took)
		}
		must(t, g.echoing())
		server.Do(aclLine(t, "pass-1")...)
		g.serves(t, g.app)
	})
}

// killClients has all of the gateway's connections made anew.
func killClients(s *redistest.Server) {
	s.Client().Do(s.Context(), "CLIENT", "KILL", "USER", "rpcgate")
}

// allowed checks that Redis refused no command so far.
func allowed(t testing.TB, s *redistest.Server) {
	t.Helper()
	for _, entry := range s.Client().ACLLog(t.Context(), 100).Val() {
		t.Errorf("refused: %s, for its %s", entry.Object, entry.Reason)
	}
}
