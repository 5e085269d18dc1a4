package rpcproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver/manual"

	"github.com/rpcgate/rpcgate/config"
)

// testPool is a pool whose connections never get anywhere.
type testPool struct {
	*Pool

	dials atomic.Int64

	counting sync.Mutex // guards retired
	retired  map[reason]int
}

func newTestPool(t testing.TB, cfg config.Pool) *testPool {
	t.Helper()
	tp := &testPool{retired: map[reason]int{}}
	dial := func(*connKey) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///nowhere",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}))
	}
	p, err := newPool(cfg, dial, poolObserver{
		dialed: func(error) { tp.dials.Add(1) },
		retired: func(why reason) {
			tp.counting.Lock()
			defer tp.counting.Unlock()
			tp.retired[why]++
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	tp.Pool = p
	t.Cleanup(func() { tp.close(t) })
	return tp
}

func (p *testPool) close(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.shutdown(ctx)
	if live, draining := p.size(); live+draining != 0 {
		t.Errorf("after shutdown %d live and %d draining", live, draining)
	}
}

func (p *testPool) wantRetired(t testing.TB, want map[reason]int) {
	t.Helper()
	p.counting.Lock()
	defer p.counting.Unlock()
	if !maps.Equal(p.retired, want) {
		t.Errorf("retired %v, want %v", p.retired, want)
	}
}

func (p *testPool) acquire(t testing.TB, c Credential) Lease {
	t.Helper()
	l, err := p.Acquire(context.Background(), c)
	if err != nil {
		t.Fatalf("Acquire(%v): %v", c, err)
	}
	return l
}

// touch uses a connection for a moment.
func (p *testPool) touch(t testing.TB, c Credential) *grpc.ClientConn {
	t.Helper()
	l := p.acquire(t, c)
	defer l.Release()
	return l.Conn()
}

func poolConfig(change func(*config.Pool)) config.Pool {
	cfg := config.DefaultBackend("").Pool
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func app(name string) Credential { return Credential{App: name, TokenID: "id", Token: "token"} }

func shut(c *grpc.ClientConn) bool { return c.GetState() == connectivity.Shutdown }

func TestPoolKeys(t *testing.T) {
	credentials := []Credential{
		{},
		{App: "a", TokenID: "1", Token: "b/c"},
		{App: "a/b", TokenID: "1", Token: "c"},
		{App: "a", TokenID: "1/b", Token: "c"},
		{App: "a", TokenID: "1", Token: "x"},
		{App: "a", TokenID: "2", Token: "x"},
	}
	for key, want := range map[string]int{"credential": 6, "app": 3, "shared": 1} {
		t.Run(key, func(t *testing.T) {
			p := newTestPool(t, poolConfig(func(c *config.Pool) { c.Key = key }))
			conns := map[*grpc.ClientConn]bool{}
			for range 2 {
				for _, c := range credentials {
					conns[p.touch(t, c)] = true
				}
			}
			if len(conns) != want || p.dials.Load() != int64(want) {
				t.Errorf("%d connections, %d dials, want %d", len(conns), p.dials.Load(), want)
			}
		})
	}
}

func TestPoolOneDialForManyCallers(t *testing.T) {
	p := newTestPool(t, poolConfig(nil))
	var wg sync.WaitGroup
	conns := make([]*grpc.ClientConn, 200)
	for i := range conns {
		wg.Go(func() { conns[i] = p.touch(t, app("a")) })
	}
	wg.Wait()
	for _, c := range conns {
		if c != conns[0] {
			t.Fatal("two callers of one credential got different connections")
		}
	}
	if p.dials.Load() != 1 {
		t.Errorf("%d dials", p.dials.Load())
	}
}

func TestPoolGoneCallerDialsNothing(t *testing.T) {
	p := newTestPool(t, poolConfig(nil))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Acquire(ctx, app("a")); !errors.Is(err, context.Canceled) || p.dials.Load() != 0 {
		t.Errorf("%v, %d dials", err, p.dials.Load())
	}
}

func TestPoolDialFails(t *testing.T) {
	broken := errors.New("broken")
	p, err := newPool(poolConfig(nil), func(*connKey) (*grpc.ClientConn, error) { return nil, broken },
		poolObserver{dialed: func(error) {}, retired: func(reason) {}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := p.Acquire(context.Background(), app("a")); !errors.Is(err, broken) {
			t.Errorf("Acquire: %v", err)
		}
	}
	if err := p.shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestPoolEvictsLeastRecentlyUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, poolConfig(func(c *config.Pool) { c.MaxConns = 3 }))
		conns := map[string]*grpc.ClientConn{}
		for _, name := range []string{"a", "b", "c", "a", "b"} {
			conns[name] = p.touch(t, app(name))
			time.Sleep(time.Second)
		}
		p.touch(t, app("d"))
		synctest.Wait()
		if !shut(conns["c"]) || shut(conns["a"]) || shut(conns["b"]) {
			t.Errorf("a shut %v, b shut %v, c shut %v; want c alone", shut(conns["a"]), shut(conns["b"]), shut(conns["c"]))
		}
		p.wantRetired(t, map[reason]int{reasonEvicted: 1})
	})
}

// An idle connection makes room before one in use, and one in use that is
// evicted serves its call to the end.
func TestPoolEvictionSparesCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, poolConfig(func(c *config.Pool) { c.MaxConns = 2 }))
		long := p.acquire(t, app("long"))
		time.Sleep(time.Second)
		for i := range 10 {
			p.touch(t, app(fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if p.touch(t, app("long")) != long.Conn() {
			t.Error("a connection in use was evicted though idle ones were there")
		}
		second := p.acquire(t, app("second"))
		third := p.acquire(t, app("third"))   // evicts one of the two
		fourth := p.acquire(t, app("fourth")) // and the other
		if live, draining := p.size(); live != 2 || draining != 2 {
			t.Errorf("%d live, %d draining, want 2 and 2", live, draining)
		}
		if _, err := p.Acquire(context.Background(), app("fifth")); !errors.Is(err, ErrPoolFull) {
			t.Errorf("fifth: %v, want ErrPoolFull", err)
		}
		synctest.Wait()
		if shut(long.Conn()) || shut(second.Conn()) {
			t.Error("a connection was closed with a call in flight")
		}
		again := p.acquire(t, app("third"))
		if again.Conn() != third.Conn() {
			t.Error("a full pool does not serve the connections it has")
		}
		again.Release()
		long.Release()
		synctest.Wait()
		if !shut(long.Conn()) {
			t.Error("the last lease did not close an evicted connection")
		}
		fifth := p.acquire(t, app("fifth"))
		for _, l := range []Lease{second, third, fourth, fifth} {
			l.Release()
		}
	})
}

func TestPoolIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, poolConfig(func(c *config.Pool) { c.IdleTimeout = 30 * time.Minute }))
		idle := p.touch(t, app("idle"))
		busy := p.acquire(t, app("busy"))
		lively := p.touch(t, app("lively"))
		for range 50 {
			time.Sleep(time.Minute)
			p.touch(t, app("lively"))
		}
		synctest.Wait()
		if !shut(idle) || shut(busy.Conn()) || shut(lively) {
			t.Errorf("idle shut %v, busy shut %v, lively shut %v; want idle alone", shut(idle), shut(busy.Conn()), shut(lively))
		}
		busy.Release()
		time.Sleep(34 * time.Minute) // idle timeout and a tenth
		synctest.Wait()
		if live, _ := p.size(); live != 0 {
			t.Errorf("%d connections are left", live)
		}
		p.wantRetired(t, map[reason]int{reasonIdle: 3})
		if p.touch(t, app("idle")) == idle {
			t.Error("got the connection that was closed")
		}
	})
}

func TestPoolIdleNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, poolConfig(func(c *config.Pool) { c.IdleTimeout = 0 }))
		c := p.touch(t, app("a"))
		time.Sleep(1000 * time.Hour)
		synctest.Wait()
		if shut(c) {
			t.Error("closed")
		}
	})
}

func TestPoolDrainLimit(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Minute} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newTestPool(t, poolConfig(func(c *config.Pool) { c.MaxConns, c.DrainTimeout = 1, limit }))
				long := p.acquire(t, app("a"))
				p.touch(t, app("b"))
				time.Sleep(59 * time.Second)
				synctest.Wait()
				if shut(long.Conn()) {
					t.Fatal("closed before the limit")
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if got, want := shut(long.Conn()), limit > 0; got != want {
					t.Errorf("after the limit of %v: closed %v", limit, got)
				}
				if got, want := long.ended(), reasonEvicted; limit > 0 && got != want {
					t.Errorf("ended = %q, want %q", got, want)
				}
				long.Release()
			})
		})
	}
}

func TestPoolRevoke(t *testing.T) {
	acme1, acme2 := Credential{"acme", "1", "x"}, Credential{"acme", "2", "y"}
	other := Credential{"other", "1", "x"}
	for _, tt := range []struct {
		key, app, token string
		cut             bool
		gone            []Credential
	}{
		{"credential", "acme", "1", false, []Credential{acme1}},
		{"credential", "acme", "1", true, []Credential{acme1}},
		{"credential", "acme", "", false, []Credential{acme1, acme2}},
		{"credential", "", "", true, nil},
		{"app", "acme", "1", true, nil},
		{"app", "acme", "", false, []Credential{acme1, acme2}},
		{"shared", "acme", "", true, nil},
	} {
		t.Run(fmt.Sprintf("%s %s/%s cut %v", tt.key, tt.app, tt.token, tt.cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newTestPool(t, poolConfig(func(c *config.Pool) { c.Key = tt.key }))
				leases := map[Credential]Lease{}
				for _, c := range []Credential{{}, acme1, acme2, other} {
					leases[c] = p.acquire(t, c)
				}
				p.revoke(tt.app, tt.token, tt.cut)
				synctest.Wait()
				gone := map[Credential]bool{}
				for _, c := range tt.gone {
					gone[c] = true
				}
				for c, l := range leases {
					if shut(l.Conn()) != (gone[c] && tt.cut) {
						t.Errorf("%v: cut off %v", c, shut(l.Conn()))
					}
					if replaced := p.touch(t, c) != l.Conn(); replaced != gone[c] {
						t.Errorf("%v: replaced %v, want %v", c, replaced, gone[c])
					}
					l.Release()
				}
				synctest.Wait()
				for _, c := range tt.gone {
					if !shut(leases[c].Conn()) {
						t.Errorf("%v: not closed by its last lease", c)
					}
				}
			})
		})
	}
}

// A connection that drains because it was revoked is still cut off by a
// revocation that asks for it.
func TestPoolRevokeCutsDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, poolConfig(func(c *config.Pool) { c.MaxConns = 1 }))
		l := p.acquire(t, app("a"))
		p.touch(t, app("b"))
		p.revoke("a", "id", true)
		synctest.Wait()
		if !shut(l.Conn()) || l.ended() != reasonRevoked {
			t.Errorf("closed %v, ended %q", shut(l.Conn()), l.ended())
		}
		l.Release()
	})
}

func TestPoolShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, poolConfig(nil))
		p.touch(t, app("idle"))
		l := p.acquire(t, app("busy"))
		done := make(chan error)
		go func() { done <- p.shutdown(context.Background()) }()
		synctest.Wait()
		if _, err := p.Acquire(context.Background(), app("busy")); !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire: %v, want ErrClosed", err)
		}
		select {
		case err := <-done:
			t.Fatalf("shutdown did not wait: %v", err)
		default:
		}
		l.Release()
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.wantRetired(t, map[reason]int{reasonShutdown: 2})
	})
}

func TestPoolShutdownCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, poolConfig(nil))
		l := p.acquire(t, app("busy"))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := p.shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
		if !shut(l.Conn()) || l.ended() != reasonShutdown {
			t.Errorf("closed %v, ended %q", shut(l.Conn()), l.ended())
		}
		l.Release()
	})
}

// However many connections are still being closed, an empty pool has room.
func TestPoolExpiresManyAtOnce(t *testing.T) {
	const conns = 600
	p := newTestPool(t, poolConfig(nil))
	release := make(chan struct{})
	defer close(release)
	p.dial = func(*connKey) (*grpc.ClientConn, error) {
		r := manual.NewBuilderWithScheme("held")
		r.CloseCallback = func() { <-release }
		return grpc.NewClient("held:///nowhere", grpc.WithResolvers(r),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	for i := range conns {
		p.touch(t, app(fmt.Sprint(i)))
	}
	p.mu.Lock()
	for e := range p.liveLocked() {
		e.used.Add(-int64(p.cfg.IdleTimeout))
	}
	p.mu.Unlock()
	p.expireIdle()
	p.wantRetired(t, map[reason]int{reasonIdle: conns})
	p.acquire(t, app("next")).Release()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing != conns {
		t.Errorf("%d connections are being closed, want %d", p.closing, conns)
	}
}

// The first sweep may come before the pool is made.
func TestPoolIdleAtOnce(t *testing.T) {
	for range 1000 {
		p, err := newPool(poolConfig(func(c *config.Pool) { c.IdleTimeout = 1 }), nil, poolObserver{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// However many credentials come, the pool stays within its bound.
func TestPoolFlood(t *testing.T) {
	p := newTestPool(t, poolConfig(func(c *config.Pool) { c.MaxConns = 16 }))
	for i := range 2000 {
		l, err := p.Acquire(context.Background(), app(fmt.Sprint(i)))
		if err != nil {
			if !errors.Is(err, ErrPoolFull) {
				t.Fatal(err)
			}
			continue
		}
		l.Release()
		if live, draining := p.size(); live > 16 || draining > 16 {
			t.Fatalf("%d live, %d draining", live, draining)
		}
	}
}

// All that happens to entries, at once, with leases that check their connection.
func TestPoolChurn(t *testing.T) {
	p := newTestPool(t, poolConfig(func(c *config.Pool) { c.MaxConns, c.IdleTimeout = 4, time.Millisecond }))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := g; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				l, err := p.Acquire(context.Background(), app(fmt.Sprint(i%7)))
				if errors.Is(err, ErrPoolFull) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if shut(l.Conn()) {
					t.Error("a leased connection was closed")
				}
				l.Release()
			}
		})
	}
	for i := range 200 {
		p.revoke(fmt.Sprint(i%7), "", false)
		p.expireIdle()
	}
	close(stop)
	wg.Wait()
}

func TestPoolRefusesBadConfig(t *testing.T) {
	for name, change := range map[string]func(*config.Pool){
		"key":       func(c *config.Pool) { c.Key = "tenant" },
		"max conns": func(c *config.Pool) { c.MaxConns = 0 },
	} {
		if _, err := newPool(poolConfig(change), nil, poolObserver{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
