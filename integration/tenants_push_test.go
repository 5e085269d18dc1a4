package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

const (
	// pushed is how fast a change is heard by who is subscribed.
	pushed = time.Second
	// noticed is how fast it is found by who is not, by asking every second. It is
	// far less than the TTL, 5 minutes, which is the promise.
	noticed = 4 * time.Second
)

// trio is three gateways that share a Redis; the last of them cannot hear
// messages: its user has no right to any channel.
type trio []*rig

func startTrio(t *testing.T, b *testbackend.Server, settings, rest string) trio {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	rdb := redisClient(t, server.Addr)
	err := rdb.Do(t.Context(), "ACL", "SETUSER", "deaf", "on", ">secret", "~rpcgate:*", "+@all", "resetchannels").Err()
	if err != nil {
		t.Fatal(err)
	}
	one := startRig(t, server, "", echoConfig(b, settings)+rest)
	two := one.beside(t, echoConfig(b, settings)+rest)
	deaf := &rig{redis: server, app: one.app, token: one.token}
	deaf.start(t, fmt.Sprintf("addresses: [%q], username: deaf, password: secret", server.Addr), echoConfig(b, settings)+rest)
	one.heard(t, true)
	two.heard(t, true)
	deaf.heard(t, false)
	return trio{one, two, deaf}
}

func (f trio) deaf(i int) bool { return i == 2 }

// change makes a change, and checks how fast calls come to end with the reason on
// each gateway.
func (f trio) change(t *testing.T, what, reason string, call func(*rig) callFunc, change func(context.Context, *tenant.Store) error) {
	t.Helper()
	withStore(t, f[0].redis.Addr, change)
	changed := time.Now()
	var waiting sync.WaitGroup
	for i, g := range f {
		waiting.Go(func() {
			comesTo(t, call(g), reason)
			limit := pushed
			if f.deaf(i) {
				limit = noticed
			}
			if took := time.Since(changed); took > limit {
				t.Errorf("%s was in force on gateway %d after %v, want %v", what, i, took, limit)
			}
		})
	}
	waiting.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func changing(c tenant.AppChange) func(context.Context, *tenant.Store) error {
	return func(ctx context.Context, s *tenant.Store) error {
		_, err := s.ChangeApp(ctx, "acme", c)
		return err
	}
}

// Whatever an operator changes is in force on every gateway within a second, and
// where the messages do not come, long before the TTL is over. All of them had
// the credential in memory.
func TestChangesReachAllGateways(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	f := startTrio(t, b, "", "limits: {store_down: open}\n")
	call := (*rig).echoing
	for _, g := range f {
		must(t, g.echoing())
		must(t, g.invoking(g.conn))
	}
	suspended, active := tenant.Suspended, tenant.Active
	scopes, everything := []string{"shop.X/Y"}, []string{}
	limits, none := config.Limits{Daily: 1}, config.Limits{}

	f.change(t, "the suspension", "APP_SUSPENDED", call, changing(tenant.AppChange{Status: &suspended}))
	for _, g := range f {
		ends(t, g.invoking(g.conn), "APP_SUSPENDED")
	}
	f.change(t, "the resumption", "OK", call, changing(tenant.AppChange{Status: &active}))
	f.change(t, "the scopes", "SCOPE_MISSING", call, changing(tenant.AppChange{Scopes: &scopes}))
	f.change(t, "the widening", "OK", call, changing(tenant.AppChange{Scopes: &everything}))
	f.change(t, "the limit", "RATE_LIMITED", call, changing(tenant.AppChange{Limits: &limits}))
	f.change(t, "the end of the limit", "OK", call, changing(tenant.AppChange{Limits: &none}))
	f.change(t, "the token's scopes", "SCOPE_MISSING", call, func(ctx context.Context, s *tenant.Store) error {
		_, err := s.ChangeToken(ctx, "acme", tokenID(f[0].token), tenant.TokenChange{Scopes: &scopes})
		return err
	})
	f.change(t, "the deletion", "TOKEN_INVALID", call, func(ctx context.Context, s *tenant.Store) error {
		return s.DeleteApp(ctx, "acme")
	})
}

// A subscription that is cut at the very moment of a change loses nothing.
func TestChangesDuringACutReachAllGateways(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	f := startTrio(t, b, "", "")
	rdb := redisClient(t, f[0].redis.Addr)
	for _, status := range []tenant.Status{tenant.Suspended, tenant.Active, tenant.Suspended} {
		reason := map[tenant.Status]string{tenant.Suspended: "APP_SUSPENDED", tenant.Active: "OK"}[status]
		if err := rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		f.change(t, "the status "+string(status), reason, (*rig).echoing, changing(tenant.AppChange{Status: &status}))
	}
}

// Streams of a suspended app end where auth.revoke_in_flight says so, and go on
// where it does not; those of others go on in any case.
func TestSuspensionAndStreams(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cancel", "finish"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := testbackend.Start(t)
			f := startTrio(t, b, "", "auth: {revoke_in_flight: "+mode+"}\n")
			other := issueToken(t, f[0].redis.Addr, tenant.IssueOptions{App: "other"}).Secret
			var streams, theirs []*bytesStream
			for _, g := range f {
				s := rawStream(t, g.limited(t), g.conn, echoBidi)
				echoes(t, s)
				streams = append(streams, s)
				stranger := &rig{Gateway: g.Gateway, app: "other", token: other, conn: g.conn}
				s = rawStream(t, stranger.limited(t), g.conn, echoBidi)
				echoes(t, s)
				theirs = append(theirs, s)
			}
			suspended := tenant.Suspended
			withStore(t, f[0].redis.Addr, changing(tenant.AppChange{Status: &suspended}))
			changed := time.Now()
			for i, s := range streams {
				if mode == "finish" {
					comesTo(t, f[i].echoing(), "APP_SUSPENDED")
					echoes(t, s)
					if err := s.CloseSend(); err != nil {
						t.Fatal(err)
					}
					if _, err := s.recv(); !errors.Is(err, io.EOF) {
						t.Errorf("gateway %d: the stream ended with %v", i, err)
					}
				} else {
					_, err := s.recv()
					grpcFailed(t, err, codes.Unauthenticated, "TOKEN_REVOKED")
					limit := pushed
					if f.deaf(i) {
						limit = noticed
					}
					if took := time.Since(changed); took > limit {
						t.Errorf("gateway %d: the stream went on for %v", i, took)
					}
				}
				echoes(t, theirs[i])
			}
		})
	}
}

// askAll asks all gateways what they make of a credential.
func (f trio) askAll(t *testing.T, app, token string) map[auth.Verdict]int {
	t.Helper()
	cfg := config.Defaults()
	cfg.Redis.Addresses = []string{f[0].redis.Addr}
	rdb, err := auth.Open(cfg.Redis)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rdb.Close() }()
	q, err := auth.NewQuestion(cfg.Auth, auth.Credential{App: app, Token: token}, "")
	if err != nil {
		t.Fatal(err)
	}
	answers, _, err := auth.AskNodes(t.Context(), rdb, tenant.KeysOf(cfg.Auth), q)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[auth.Verdict]int{}
	for _, a := range answers {
		verdicts[a.Verdict]++
	}
	return verdicts
}

// A secret that was revoked or rotated is dead on every node within a second,
// also where the node had it in memory; and each node says so when asked.
func TestOldSecretsAreDeadOnEveryNode(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"revoked", "rotated", "all revoked"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := testbackend.Start(t)
			one := newRig(t, echoConfig(b, ""))
			f := trio{one, one.beside(t, echoConfig(b, "")), one.beside(t, echoConfig(b, ""))}
			for _, g := range f {
				g.heard(t, true)
				must(t, g.echoing())
				must(t, g.invoking(g.conn))
			}
			gatewaytest.Eventually(t, func() error {
				if v := f.askAll(t, one.app, one.token); v[auth.VerdictValid] != 3 {
					return fmt.Errorf("the gateways answer %v, want that it is valid, thrice", v)
				}
				return nil
			})
			renewed := ""
			withStore(t, one.redis.Addr, func(ctx context.Context, s *tenant.Store) error {
				switch way {
				case "revoked":
					return s.Revoke(ctx, one.app, tokenID(one.token))
				case "all revoked":
					return s.Revoke(ctx, one.app, "")
				default:
					issued, err := s.Rotate(ctx, one.app, tokenID(one.token), 0)
					renewed = issued.Secret
					return err
				}
			})
			done := time.Now()
			for _, g := range f {
				comesTo(t, g.echoing(), "TOKEN_REVOKED")
			}
			if took := time.Since(done); took > pushed {
				t.Errorf("the old secret was good for another %v", took)
			}
			for _, g := range f {
				ends(t, g.invoking(g.conn), "TOKEN_REVOKED")
			}
			if v := f.askAll(t, one.app, one.token); v[auth.VerdictRevoked] != 3 || len(v) != 1 {
				t.Errorf("asked, the gateways say %v; want that it is revoked, thrice", v)
			}
			if renewed == "" {
				return
			}
			for _, g := range f {
				must(t, g.echoingAs(g.app, renewed))
			}
			if v := f.askAll(t, one.app, renewed); v[auth.VerdictValid] != 3 {
				t.Errorf("of the new one they say %v", v)
			}
		})
	}
}

// Through a rotation both secrets are good, at every moment and on every gateway:
// the old one until the grace is over, the new one from the moment it is there.
func TestNeitherSecretIsRefusedThroughARotation(t *testing.T) {
	t.Parallel()
	const grace = 3 * time.Second
	b := testbackend.Start(t)
	one := newRig(t, quiet+echoConfig(b, ""))
	f := trio{one, one.beside(t, quiet+echoConfig(b, "")), one.beside(t, quiet+echoConfig(b, ""))}
	callers := func(token string) (calls []callFunc) {
		for _, g := range f {
			g.heard(t, true)
			as := &rig{Gateway: g.Gateway, app: g.app, token: token, conn: g.conn}
			calls = append(calls, g.echoingAs(g.app, token), as.invoking(g.conn))
		}
		return calls
	}
	before := startLoad(t, 1, callers(one.token)...)
	defer before.stop()
	var renewed string
	began := time.Now()
	withStore(t, one.redis.Addr, func(ctx context.Context, s *tenant.Store) error {
		issued, err := s.Rotate(ctx, one.app, tokenID(one.token), grace)
		renewed = issued.Secret
		return err
	})
	after := startLoad(t, 1, callers(renewed)...)
	defer after.stop()
	before.awaitMore(100)
	after.awaitMore(100)
	before.awaitFailures(6, "TOKEN_EXPIRED")
	before.stop()
	after.awaitMore(20)
	after.stop()
	before.only("TOKEN_EXPIRED")
	after.only()
	if first := before.firstFailure(); first.Before(began.Add(grace)) {
		t.Errorf("the old secret was refused %v after the rotation, want %v", first.Sub(began), grace)
	}
}

// Nodes that share a Redis are seen in it while they run.
func TestNodesAreSeenWhileTheyRun(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	one := newRig(t, echoConfig(b, "")+"auth: {node: edge-1}\n")
	two := one.beside(t, echoConfig(b, "")+"auth: {node: edge-2}\n")
	rdb := redisClient(t, one.redis.Addr)
	nodes := func(want string) {
		t.Helper()
		gatewaytest.Eventually(t, func() error {
			got, err := rdb.ZRange(t.Context(), "rpcgate:nodes", 0, -1).Result()
			if err == nil && strings.Join(got, " ") != want {
				err = fmt.Errorf("nodes are %q, want %q", got, want)
			}
			return err
		})
	}
	nodes("edge-1 edge-2")
	two.Stop()
	nodes("edge-1")
}
