package rpcproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

func TestCredentialPrintsNoSecret(t *testing.T) {
	const secret = "s3cr3t"
	c := Credential{App: "acme", TokenID: "id7", Token: secret}
	r := Request{Credential: c}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "c", c, "p", &c, "r", r)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "c", c, "p", &c, "r", r)
	text, err := json.Marshal(map[string]any{"c": c, "p": &c, "r": r.Credential})
	if err != nil {
		t.Fatal(err)
	}
	printed := []string{log.String(), string(text)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		printed = append(printed, fmt.Sprintf(verb, c), fmt.Sprintf(verb, &c), fmt.Sprintf(verb, r), fmt.Sprintf(verb, []Credential{c}))
	}
	for _, s := range printed {
		if strings.Contains(s, secret) || strings.Contains(strings.ToLower(s), fmt.Sprintf("%x", secret)) {
			t.Errorf("the secret is in %s", s)
		}
	}
	if got := fmt.Sprint(c); !strings.Contains(got, "acme") || !strings.Contains(got, "id7") {
		t.Errorf("prints as %s", got)
	}
	if got := (Credential{}).String(); got != "none" {
		t.Errorf("the zero credential prints as %s", got)
	}
}

// whoami answers with the connection the call came by and its credential.
func whoami() grpc.StreamHandler {
	return answerWith(func(ctx context.Context) (string, error) {
		p, _ := peer.FromContext(ctx)
		md, _ := metadata.FromIncomingContext(ctx)
		return fmt.Sprintf("%v %q %q", p.Addr, md["app"], md["token"]), nil
	})
}

// No two credentials meet on a connection, however they look when joined.
func TestCredentialsNeverShareAConnection(t *testing.T) {
	s := serve(t, whoami())
	b := newBackend(t, s.addr, nil, Options{})
	credentials := []Credential{
		{},
		{"a", "", "b/c"}, {"a/b", "", "c"}, {"a", "b", "c"}, {"a/b/c", "", ""}, {"", "", "a/b/c"},
		{"ab", "", "c"}, {"a", "", "bc"}, {"a\x00", "", "b"}, {"a", "", "\x00b"},
	}
	credentials = credentials[:len(credentials)-2] // NUL cannot be sent as metadata
	byConn := map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range credentials {
		for range 20 {
			wg.Go(func() {
				got, err := unary(testContext(t), b, c, "x")
				if err != nil {
					t.Errorf("%v: %v", c, err)
					return
				}
				addr, seen, _ := strings.Cut(got, " ")
				want := fmt.Sprintf("%q %q", []string{c.App}, []string{c.Token})
				if c.IsZero() {
					want = fmt.Sprintf("%q %q", []string(nil), []string(nil))
				}
				if seen != want {
					t.Errorf("the backend saw %s, want %s", seen, want)
				}
				mu.Lock()
				defer mu.Unlock()
				key := fmt.Sprintf("%q %q %q", c.App, c.TokenID, c.Token)
				if other, ok := byConn[addr]; ok && other != key {
					t.Errorf("%s and %s share a connection", key, other)
				}
				byConn[addr] = key
			})
		}
	}
	wg.Wait()
	if len(byConn) != len(credentials) {
		t.Errorf("%d connections for %d credentials", len(byConn), len(credentials))
	}
}

func TestConcurrentFirstCallsMakeOneConnection(t *testing.T) {
	s := serve(t, echo)
	b := newBackend(t, s.addr, nil, Options{})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			// Some give up at once; the others must not notice.
			ctx := testContext(t)
			if i%10 == 0 {
				short, cancel := context.WithTimeout(ctx, time.Duration(i)*10*time.Microsecond)
				defer cancel()
				_, _ = unary(short, b, app("a"), "x")
				return
			}
			if _, err := unary(ctx, b, app("a"), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s.conns() != 1 {
		t.Errorf("%d connections", s.conns())
	}
}

// Connections are evicted, expired and revoked while calls go on: none of them
// fails.
func TestRetiringBreaksNoCall(t *testing.T) {
	s := serve(t, echo)
	b := newBackend(t, s.addr, func(c *config.Backend) {
		c.Pool.MaxConns = 8
		c.Pool.IdleTimeout = 5 * time.Millisecond
	}, Options{})
	var stop atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := g; !stop.Load(); i++ {
				r := roads()[i%4]
				r.Credential = app(fmt.Sprint(i % 12))
				err := b.Forward(testContext(t), &r, &exchange{requests: []string{"x"}})
				if err != nil && !errors.Is(err, ErrPoolFull) {
					t.Errorf("call %d: %T %v", i, err, err)
				}
				calls.Add(1)
			}
		})
	}
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for i := 0; calls.Load() < 1000; i++ {
		b.Revoke(fmt.Sprint(i%12), "")
		<-pace.C
	}
	stop.Store(true)
	wg.Wait()
}

func TestRevokeInFlight(t *testing.T) {
	for _, cancelRevoked := range []bool{false, true} {
		t.Run(fmt.Sprintf("cancel %v", cancelRevoked), func(t *testing.T) {
			begun, end := make(chan struct{}), make(chan struct{})
			s := serve(t, func(_ any, ss grpc.ServerStream) error {
				close(begun)
				select {
				case <-end:
				case <-ss.Context().Done():
				}
				return ss.SendMsg(&Frame{Data: message("done")})
			})
			b := newBackend(t, s.addr, nil, Options{CancelRevoked: cancelRevoked})
			result := make(chan error)
			go func() {
				r := &Request{Method: testMethod, Credential: app("a"), ServerStreams: true}
				result <- b.Forward(testContext(t), r, &exchange{requests: []string{"x"}})
			}()
			<-begun
			b.Revoke("a", "id")
			if !cancelRevoked {
				close(end)
				if err := <-result; err != nil {
					t.Errorf("the call in flight: %v", err)
				}
				return
			}
			err := <-result
			if !errors.Is(err, ErrRevoked) || status.Code(err) != codes.Unauthenticated {
				t.Errorf("the call in flight: %T %v, want ErrRevoked", err, err)
			}
		})
	}
}

// always is a credential that was revoked since it was verified.
type always struct{}

func (always) Revoked() bool { return true }

// A credential that is revoked between its verification and its connection is
// refused, and leaves no connection behind, though the pool was told too soon.
func TestRevokedBeforeTheConnection(t *testing.T) {
	s := serve(t, answerWith(func(context.Context) (string, error) {
		t.Error("the backend was reached")
		return "", nil
	}))
	b := newBackend(t, s.addr, nil, Options{})
	r := &Request{Method: testMethod, Credential: app("a"), Revocable: always{}}
	if err := b.Forward(testContext(t), r, &exchange{requests: []string{"x"}}); !errors.Is(err, ErrRevoked) {
		t.Errorf("got %v, want ErrRevoked", err)
	}
	waitFor(t, "no connection", func() bool { live, draining := b.pool.size(); return live+draining == 0 })
}

// Tokens may have no id: the app's others keep their connections, and so do
// those who share one.
func TestRevokedBeforeTheConnectionConcernsOneToken(t *testing.T) {
	for _, key := range []string{"credential", "app", "shared"} {
		t.Run(key, func(t *testing.T) {
			s := serve(t, echo)
			b := newBackend(t, s.addr, func(c *config.Backend) { c.Pool.Key = key }, Options{CancelRevoked: true})
			good := Credential{App: "a", Token: "good"}
			lease, err := b.pool.Acquire(testContext(t), good)
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
			r := &Request{Method: testMethod, Credential: Credential{App: "a", Token: "bad"}, Revocable: always{}}
			for range 2 {
				if err := b.Forward(testContext(t), r, &exchange{requests: []string{"x"}}); !errors.Is(err, ErrRevoked) {
					t.Fatalf("got %v, want ErrRevoked", err)
				}
			}
			if live, draining := b.pool.size(); live != 1 {
				t.Errorf("%d connections live and %d draining, want 1 live", live, draining)
			}
			again, err := b.pool.Acquire(testContext(t), good)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Release()
			if again != lease {
				t.Error("the other token's connection was retired")
			}
		})
	}
	t.Run("retired before", func(t *testing.T) {
		p := newTestPool(t, poolConfig(nil))
		l := p.acquire(t, app("a"))
		p.revoke("a", "", false)
		next := p.acquire(t, app("a"))
		p.retireRevoked(l)
		p.wantRetired(t, map[reason]int{reasonRevoked: 1})
		l.Release()
		next.Release()
	})
}

func TestShutdownWaitsForCalls(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	s := serve(t, answerWith(func(context.Context) (string, error) {
		close(begun)
		<-end
		return "done", nil
	}))
	b := newBackend(t, s.addr, nil, Options{})
	result := make(chan error)
	go func() {
		_, err := unary(testContext(t), b, app("a"), "x")
		result <- err
	}()
	<-begun
	down := make(chan error)
	go func() { down <- b.Shutdown(testContext(t)) }()
	waitFor(t, "new calls to be refused", func() bool {
		_, release, err := b.AcquireShared(testContext(t))
		if err == nil {
			release()
		}
		return errors.Is(err, ErrClosed)
	})
	close(end)
	if err := <-result; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}
