package auth

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// soon is the promise: a revocation is heard within it.
const soon = time.Second

// within wants cond by the end of d.
func within(t *testing.T, d time.Duration, what string, cond func() bool) {
	t.Helper()
	start := time.Now()
	eventually(t, what, cond)
	if took := time.Since(start); took > d {
		t.Errorf("%s took %s, want %s at most", what, took, d)
	}
}

func (g *gateway) refuses(t *testing.T, c Credential, err error) func() bool {
	t.Helper()
	return func() bool {
		_, got := g.Verify(t.Context(), c)
		return errors.Is(got, err)
	}
}

func TestRevocationIsHeard(t *testing.T) {
	rdb := startRedis(t).client()
	s := tenant.NewStore(rdb, config.Auth{})
	g := startGateway(t, rdb, config.Auth{})
	g.hearing(t)
	ctx := t.Context()
	tokens := []tenant.Issued{issue(t, s, "acme"), issue(t, s, "acme"), issue(t, s, "acme"), issue(t, s, "beta")}
	principals := make([]*Principal, len(tokens))
	for i, token := range tokens {
		var err error
		if principals[i], err = g.Verify(ctx, credential(token)); err != nil {
			t.Fatal(err)
		}
	}

	if err := s.Revoke(ctx, "acme", tokens[0].ID); err != nil {
		t.Fatal(err)
	}
	within(t, soon, "the revocation", func() bool { return g.told(Revocation{"acme", tokens[0].ID}) })
	g.verify(t, credential(tokens[0]), ErrRevoked)
	if !principals[0].Revoked() || principals[1].Revoked() {
		t.Error("the principal does not know of its revocation, or another does")
	}
	g.verify(t, credential(tokens[1]), nil)

	next, err := s.Rotate(ctx, "acme", tokens[1].ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	within(t, soon, "the rotation without grace", func() bool { return g.told(Revocation{"acme", tokens[1].ID}) })
	g.verify(t, credential(tokens[1]), ErrRevoked)
	g.verify(t, credential(next), nil)

	if _, err := s.Rotate(ctx, "acme", next.ID, 500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	within(t, soon+500*time.Millisecond, "the end of the grace", func() bool {
		_, err := g.Verify(ctx, credential(next))
		return errors.Is(err, ErrExpired)
	})
	if g.told(Revocation{"acme", next.ID}) {
		t.Error("a rotation with grace was told as a revocation")
	}

	if err := s.Revoke(ctx, "acme", ""); err != nil {
		t.Fatal(err)
	}
	within(t, soon, "the app's revocation", func() bool { return g.told(Revocation{App: "acme"}) })
	g.verify(t, credential(tokens[2]), ErrRevoked)
	g.verify(t, credential(tokens[3]), nil)
}

// While credentials are verified all the time, none passes after its revocation
// was told.
func TestNoneVerifiedAfterItsRevocation(t *testing.T) {
	rdb := startRedis(t).client()
	s := tenant.NewStore(rdb, config.Auth{})
	g := startGateway(t, rdb, config.Auth{})
	g.hearing(t)
	for range 10 {
		token := issue(t, s, "acme")
		revoked := Revocation{"acme", token.ID}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					told := g.told(revoked)
					_, err := g.Verify(t.Context(), credential(token))
					if told && err == nil {
						t.Error("a credential was verified after its revocation was told")
					}
					if told || err != nil && !errors.Is(err, ErrRevoked) {
						return
					}
				}
			})
		}
		if err := s.Revoke(t.Context(), "acme", token.ID); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
}

// What happened while the subscription was interrupted is made up for.
func TestInterruptedSubscription(t *testing.T) {
	rdb := startRedis(t).client()
	s := tenant.NewStore(rdb, config.Auth{})
	g := startGateway(t, rdb, config.Auth{})
	g.hearing(t)
	gone, kept := issue(t, s, "acme"), issue(t, s, "acme")
	g.verify(t, credential(gone), nil)
	g.verify(t, credential(kept), nil)

	// Deleted without a word, and the subscription cut.
	ctx := t.Context()
	rdb.Del(ctx, "rpcgate:{acme}:token:"+gone.ID)
	if n := rdb.ClientKillByFilter(ctx, "TYPE", "pubsub").Val(); n == 0 {
		t.Fatal("there was no subscription to cut")
	}
	within(t, soon, "the loss", func() bool { return g.told(Revocation{"acme", gone.ID}) })
	g.verify(t, credential(gone), ErrInvalid)
	g.verify(t, credential(kept), nil)
	if g.told(Revocation{"acme", kept.ID}) {
		t.Error("a valid credential was told as revoked")
	}
}

// A subscriber without the right to the channel still hears of a revocation by
// asking; and the rights that the README names are enough for one that has it.
func TestACLUser(t *testing.T) {
	server := startRedis(t)
	admin := server.client()
	ctx := t.Context()
	rights := []any{"acl", "setuser", "gateway", "on", ">pass", "resetchannels", "~rpcgate:*", "+hmget", "+subscribe", "+ping"}
	user := func(cfg *config.Redis) { cfg.Username, cfg.Password = "gateway", "pass" }
	s := tenant.NewStore(admin, config.Auth{})

	if err := admin.Do(ctx, rights...).Err(); err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, server.client(user), config.Auth{})
	token := issue(t, s, "acme")
	g.verify(t, credential(token), nil)
	eventually(t, "the warning", func() bool { return strings.Contains(g.log.String(), "NOPERM") })
	if err := s.Revoke(ctx, "acme", token.ID); err != nil {
		t.Fatal(err)
	}
	within(t, 2*soon, "the revocation, by asking", g.refuses(t, credential(token), ErrRevoked))
	if !g.told(Revocation{"acme", token.ID}) {
		t.Error("it was not told")
	}

	if err := admin.Do(ctx, append(rights, "&rpcgate:revocations")...).Err(); err != nil {
		t.Fatal(err)
	}
	g.hearing(t)

	wrong := startGateway(t, server.client(func(cfg *config.Redis) { cfg.Username, cfg.Password = "gateway", "s3cret" }), config.Auth{})
	wrong.verify(t, credential(token), ErrUnavailable)
	if strings.Contains(wrong.log.String(), "s3cret") {
		t.Error("the log shows the password")
	}
}

// Redis is killed, and comes back empty.
func TestKilledAndRestartedEmpty(t *testing.T) {
	for _, mode := range []string{"strict", "lenient"} {
		t.Run(mode, func(t *testing.T) {
			server := startRedis(t)
			rdb := server.client()
			s := tenant.NewStore(rdb, config.Auth{})
			seen, never := issue(t, s, "acme"), issue(t, s, "acme")
			cfg := config.Auth{Mode: mode, Cache: config.CredentialCache{
				TTL: 50 * time.Millisecond, Stale: time.Hour, NegativeTTL: 50 * time.Millisecond,
			}}
			g := startGateway(t, rdb, cfg)
			g.hearing(t)
			g.verify(t, credential(seen), nil)

			server.kill()
			eventually(t, "the interruption", func() bool { return !g.subscribed() })
			wrong := Credential{"acme", reSum(seen.Secret[:secretStart] + never.Secret[secretStart:])}
			for start := time.Now(); time.Since(start) < 200*time.Millisecond; {
				g.verify(t, credential(seen), nil) // well past its TTL
				g.verify(t, wrong, ErrInvalid)
				g.verify(t, credential(never), ErrUnavailable)
				g.verify(t, Credential{"nobody", seen.Secret}, ErrUnavailable)
				g.verify(t, Credential{"acme", "guess"}, ErrInvalid)
			}

			server.restart()
			within(t, 3*soon, "the loss of all tokens", func() bool { return g.told(Revocation{"acme", seen.ID}) })
			g.verify(t, credential(seen), ErrInvalid)
			eventually(t, "the end of the failure's memory", g.refuses(t, credential(never), ErrInvalid))
			again := issue(t, s, "acme")
			g.verify(t, credential(again), nil)
		})
	}
}

// In strict mode the window ends; in lenient it does not.
func TestStaleWindow(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	seen := issue(t, tenant.NewStore(rdb, config.Auth{}), "acme")
	cache := config.CredentialCache{TTL: 20 * time.Millisecond, Stale: 100 * time.Millisecond}
	strict := newGateway(t, rdb, config.Auth{Mode: "strict", Cache: cache})
	lenient := newGateway(t, rdb, config.Auth{Mode: "lenient", Cache: cache})
	strict.verify(t, credential(seen), nil)
	lenient.verify(t, credential(seen), nil)
	server.kill()
	eventually(t, "the end of the window", strict.refuses(t, credential(seen), ErrUnavailable))
	lenient.verify(t, credential(seen), nil)
}

// Redis stands still, as a connection does whose other end is lost: nothing
// fails, nothing answers.
func TestPaused(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	rdb := server.client()
	s := tenant.NewStore(rdb, config.Auth{})
	seen, never := issue(t, s, "acme"), issue(t, s, "acme")
	g := startGateway(t, rdb, config.Auth{Cache: config.CredentialCache{LoadTimeout: 300 * time.Millisecond}})
	g.hearing(t)
	g.verify(t, credential(seen), nil)

	server.pause()
	defer server.resume()
	within(t, 3*soon, "noticing the pause", func() bool { return !g.subscribed() })
	for range 3 {
		start := time.Now()
		g.verify(t, credential(seen), nil)
		g.verify(t, credential(never), ErrUnavailable)
		if d := time.Since(start); d > 3*soon {
			t.Errorf("answers took %s while Redis stood still", d)
		}
	}
	server.resume()
	within(t, 4*soon, "hearing again", func() bool { return g.subscribed() })
	g.verify(t, credential(seen), nil)
	eventually(t, "the look-up of another", func() bool {
		_, err := g.Verify(t.Context(), credential(never))
		return err == nil
	})
	if err := s.Revoke(t.Context(), "acme", seen.ID); err != nil {
		t.Fatal(err)
	}
	within(t, soon, "the revocation", func() bool { return g.told(Revocation{"acme", seen.ID}) })
}

// A network that swallows everything: the connections stay open, the messages
// are lost. What was revoked meanwhile is noticed when the way is free again.
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	direct := server.client()
	s := tenant.NewStore(direct, config.Auth{})
	way := newRelay(t, server.addr)
	rdb := open(t, config.Redis{
		Addresses: []string{way.addr()}, DialTimeout: 300 * time.Millisecond,
		ReadTimeout: 300 * time.Millisecond, WriteTimeout: 300 * time.Millisecond,
	})
	g := startGateway(t, rdb, config.Auth{})
	g.hearing(t)
	token, kept := issue(t, s, "acme"), issue(t, s, "acme")
	g.verify(t, credential(token), nil)
	g.verify(t, credential(kept), nil)

	way.swallow(true)
	if err := s.Revoke(t.Context(), "acme", token.ID); err != nil {
		t.Fatal(err)
	}
	within(t, 3*soon, "noticing the dead connection", func() bool { return !g.subscribed() })
	way.swallow(false)
	within(t, 3*soon, "the revocation that was missed", func() bool { return g.told(Revocation{"acme", token.ID}) })
	g.verify(t, credential(token), ErrRevoked)
	g.verify(t, credential(kept), nil)
}

// Where nothing is revoked the pings keep the subscription.
func TestQuietSubscriptionStays(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	g := newGateway(t, rdb, config.Auth{})
	g.timing.pingInterval = 10 * time.Millisecond
	g.run(t)
	g.hearing(t)
	eventually(t, "many pings", func() bool { return server.calls(rdb, "ping") > 150 })
	if !g.subscribed() || strings.Contains(g.log.String(), "cannot be heard") {
		t.Errorf("the subscription did not stay: %s", g.log)
	}
}

// A dead Redis is not asked once per call.
func TestDeadRedisIsNotHammered(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	dials := 0
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			dials++
			mu.Unlock()
			_ = c.Close()
		}
	}()
	defer func() { _ = listener.Close() }()
	g := newGateway(t, open(t, config.Redis{Addresses: []string{listener.Addr().String()}}), config.Auth{})
	token, _ := tenant.NewToken()
	calls := 0
	for start := time.Now(); time.Since(start) < soon; calls++ {
		g.verify(t, Credential{"acme", token}, ErrUnavailable)
	}
	mu.Lock()
	defer mu.Unlock()
	if calls < 1000 || dials > 50 {
		t.Errorf("%d calls made %d connections within a second", calls, dials)
	}
}

func TestUnknownMessageExpiresAll(t *testing.T) {
	rdb := startRedis(t).client()
	s := tenant.NewStore(rdb, config.Auth{})
	g := startGateway(t, rdb, config.Auth{})
	g.hearing(t)
	token := issue(t, s, "acme")
	g.verify(t, credential(token), nil)
	rdb.Del(t.Context(), "rpcgate:{acme}:token:"+token.ID)
	rdb.Publish(t.Context(), "rpcgate:revocations", "suspended acme since tuesday")
	within(t, soon, "looking up again", g.refuses(t, credential(token), ErrInvalid))
}

// Many credentials are looked up again within the promise.
func TestManyAreVerifiedAgain(t *testing.T) {
	rdb := startRedis(t).client()
	s := tenant.NewStore(rdb, config.Auth{})
	g := startGateway(t, rdb, config.Auth{Cache: config.CredentialCache{MaxLoads: 16}})
	g.hearing(t)
	var tokens []tenant.Issued
	for i := range 500 {
		tokens = append(tokens, issue(t, s, fmt.Sprint("app-", i%7)))
		g.verify(t, credential(tokens[i]), nil)
	}
	rdb.FlushAll(t.Context())
	rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	within(t, 3*soon, "the loss of all", func() bool {
		for _, token := range tokens {
			if !g.told(Revocation{token.App, token.ID}) {
				return false
			}
		}
		return true
	})
}

// relay carries bytes between a client and addr, until it swallows them.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	swallows bool
	conns    []net.Conn
	wg       sync.WaitGroup
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l}
	r.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, in, out)
			r.mu.Unlock()
			r.wg.Go(func() { r.carry(out, in) })
			r.wg.Go(func() { r.carry(in, out) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		for _, c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) swallow(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.swallows = yes
}

func (r *relay) carry(to io.WriteCloser, from io.Reader) {
	defer func() { _ = to.Close() }()
	b := make([]byte, 4096)
	lost := false // a connection that lost bytes never works again
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		r.mu.Lock()
		lost = lost || r.swallows
		r.mu.Unlock()
		if lost {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
