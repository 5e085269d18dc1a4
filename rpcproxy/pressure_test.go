package rpcproxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/rpcgate/rpcgate/config"
)

// openConns counts a server's connections that are open, and the most there were.
type openConns struct {
	mu         sync.Mutex
	open, most int
}

func (*openConns) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*openConns) HandleRPC(context.Context, stats.RPCStats)                         {}
func (*openConns) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *openConns) HandleConn(_ context.Context, s stats.ConnStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s.(type) {
	case *stats.ConnBegin:
		c.open++
		c.most = max(c.most, c.open)
	case *stats.ConnEnd:
		c.open--
	}
}

func (c *openConns) counts() (open, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open, c.most
}

// Ten times as many credentials as there may be connections, at once and in any
// order: connections come and go, and no call fails for it.
func TestNoCallFailsUnderEviction(t *testing.T) {
	const (
		maxConns    = 100
		credentials = 10 * maxConns
		callers     = 32
		calls       = 2 * credentials
	)
	var open openConns
	s := serve(t, echo, grpc.StatsHandler(&open))
	b := newBackend(t, s.addr, func(c *config.Backend) {
		c.Pool.MaxConns = maxConns
		c.Pool.MaxDials = 8
		c.Timeout = 10 * patience
		c.Retry.MaxAttempts = 1
	}, Options{})
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 0))
			for range calls / callers {
				name := fmt.Sprint(r.IntN(credentials))
				answer, err := unary(context.Background(), b, app(name), name)
				if err != nil || answer != name {
					t.Errorf("%q, %v", answer, err)
					return
				}
			}
		})
	}
	wg.Wait()
	live, draining := b.pool.size()
	if live > maxConns || draining != 0 {
		t.Errorf("%d live, %d draining", live, draining)
	}
	_, most := open.counts()
	if limit := 2*maxConns + maxClosing; most > limit {
		t.Errorf("the backend had %d connections at once, want at most %d", most, limit)
	}
	waitFor(t, "evicted connections to be closed", func() bool { n, _ := open.counts(); return n <= maxConns })
	if waiting, active := b.fleet.Dials().Counts(); waiting+active != 0 {
		t.Errorf("%d dials wait, %d are being made", waiting, active)
	}
}

// While as many connections as may be are being closed, who needs room waits for
// it, and no longer than it wants to.
func TestPoolWaitsForRoom(t *testing.T) {
	p := newTestPool(t, poolConfig(func(c *config.Pool) { c.MaxConns = 1 }))
	p.touch(t, app("first"))
	p.mu.Lock()
	p.closing += maxClosing
	p.mu.Unlock()
	short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := p.Acquire(short, app("second")); err == nil {
		t.Fatal("there is room")
	}
	done := make(chan error)
	go func() {
		l, err := p.Acquire(testContext(t), app("second"))
		if err == nil {
			l.Release()
		}
		done <- err
	}()
	waitFor(t, "Acquire to wait", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.line.Len() == 1
	})
	p.endClosing(maxClosing)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// endClosing ends the closing of so many connections that the test has counted.
func (p *Pool) endClosing(n int) {
	for range n {
		p.mu.Lock()
		p.closing--
		p.nextLocked()
		p.mu.Unlock()
	}
}

// Who waits for room gets it in the order in which they came, one for each
// connection that is closed; who is gone takes nobody's.
func TestPoolRoomGoesByTheLine(t *testing.T) {
	const waiters = 40
	p := newTestPool(t, poolConfig(func(c *config.Pool) { c.MaxConns = waiters }))
	for i := range waiters {
		p.touch(t, app(fmt.Sprint("before", i)))
	}
	p.mu.Lock()
	p.closing += maxClosing
	dial, order := p.dial, []string(nil)
	p.dial = func(key *connKey) (*grpc.ClientConn, error) {
		order = append(order, key.App) // under the pool's lock
		return dial(key)
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	var want []string
	gone, leave := context.WithCancel(testContext(t))
	for i := range waiters {
		name, ctx := fmt.Sprint(i), testContext(t)
		if i%4 == 1 {
			ctx = gone
		} else {
			want = append(want, name)
		}
		wg.Go(func() {
			if l, err := p.Acquire(ctx, Credential{App: name}); err == nil {
				l.Release()
			} else if ctx != gone {
				t.Error(err)
			}
		})
		waitFor(t, "it to stand in the line", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.line.Len() == i+1
		})
	}
	leave()
	waitFor(t, "those that are gone to leave", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.line.Len() == len(want)
	})
	p.endClosing(1) // each that comes in has another closed
	wg.Wait()
	p.endClosing(maxClosing - 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(order, want) || p.line.Len() != 0 {
		t.Errorf("came in as %v, want %v; %d still wait", order, want, p.line.Len())
	}
}

// However those who wait for room come and go at once, nobody is left in the line.
func TestPoolRoomRace(t *testing.T) {
	p := newTestPool(t, poolConfig(func(c *config.Pool) { c.MaxConns = 20 }))
	p.mu.Lock()
	p.closing += maxClosing - 4
	p.mu.Unlock()
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 30 {
				ctx, cancel := testContext(t), context.CancelFunc(func() {})
				if r.IntN(2) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(1000))*time.Microsecond)
				}
				if l, err := p.Acquire(ctx, app(fmt.Sprint(r.IntN(60)))); err == nil {
					l.Release()
				} else if ctx.Err() == nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	p.endClosing(maxClosing - 4)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line.Len() != 0 {
		t.Errorf("%d still wait", p.line.Len())
	}
}

// Revoking one app of many looks at its own connections alone, also when others
// were evicted before.
func TestPoolRevokesOneAppOfMany(t *testing.T) {
	p := newTestPool(t, poolConfig(func(c *config.Pool) { c.MaxConns = 50 }))
	for i := range 100 {
		p.touch(t, Credential{App: fmt.Sprint("app", i%20), TokenID: fmt.Sprint(i), Token: "x"})
	}
	p.revoke("app3", "", false)
	p.revoke("app4", "84", false)
	p.mu.Lock()
	defer p.mu.Unlock()
	left := map[string]int{}
	for e := range p.liveLocked() {
		left[e.key.App]++
	}
	if left["app3"] != 0 || left["app4"] != left["app5"]-1 {
		t.Errorf("left: %v", left)
	}
}
