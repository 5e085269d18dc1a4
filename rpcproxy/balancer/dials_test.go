package balancer_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// crowd is connections of several apps, whose making is bounded, and counted from
// the dial on.
type crowd struct {
	cluster

	policy string
	hold   chan struct{} // closed: dials go on; nil: they do at once

	mu      sync.Mutex
	dialing map[context.Context]bool
	most    int
	order   []string // the apps, as their dials began
	broken  atomic.Bool
}

func newCrowd(t *testing.T, policy string, limit, endpoints int) *crowd {
	t.Helper()
	c := &crowd{policy: policy, dialing: map[context.Context]bool{}}
	c.timeout = patience // a busy machine takes its time
	var err error
	c.fleet, err = fleet.New(config.Backend{Balancer: config.Balancer{Policy: policy}, Pool: config.Pool{MaxDials: limit}},
		fleet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range endpoints {
		c.endpoints = append(c.endpoints, startEndpoint(t))
	}
	return c
}

// enter notes that a dial begins, and how many there are with it, but for those
// that were given up.
func (c *crowd) enter(ctx context.Context, app string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order = append(c.order, app)
	c.dialing[ctx] = true
	n := 0
	for other := range c.dialing {
		if other.Err() == nil {
			n++
		}
	}
	c.most = max(c.most, n)
}

func (c *crowd) leave(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.dialing, ctx)
}

// join makes a connection for an app.
func (c *crowd) join(t *testing.T, app string) *grpc.ClientConn {
	t.Helper()
	r := manual.NewBuilderWithScheme("manual")
	r.InitialState(balancer.WithDials(c.state(c.endpoints...), c.fleet.Dials(), app))
	member := cluster{resolver: r, timeout: c.timeout}
	conn := member.dial(t, c.policy, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		c.enter(ctx, app)
		defer c.leave(ctx)
		if c.hold != nil {
			select {
			case <-c.hold:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if c.broken.Load() {
			return nil, fmt.Errorf("no way to %s", address)
		}
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}))
	conn.Connect()
	return conn
}

func (c *crowd) dials() (waiting, active int) { return c.fleet.Dials().Counts() }

func (c *crowd) settled(t *testing.T) {
	t.Helper()
	waitFor(t, "no dials to be left", func() bool {
		waiting, active := c.dials()
		return waiting+active == 0
	})
}

func callOver(ctx context.Context, conn *grpc.ClientConn) error {
	return conn.Invoke(ctx, "/s/M", &emptypb.Empty{}, &emptypb.Empty{})
}

func patiently(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	return ctx
}

// Of many first calls at once none fails, and no endpoint gets more handshakes at
// a time than it may.
func TestFirstCallsOfManyAreSmoothed(t *testing.T) {
	for _, policy := range []string{"p2c_ewma", "pick_first"} {
		t.Run(policy, func(t *testing.T) {
			const limit, endpoints = 3, 2
			c := newCrowd(t, policy, limit, endpoints)
			var wg sync.WaitGroup
			for i := range 50 {
				conn := c.join(t, fmt.Sprint("app", i%7))
				wg.Go(func() {
					if err := callOver(patiently(t), conn); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			c.settled(t)
			if c.most > limit*endpoints {
				t.Errorf("%d dials at once to %d endpoints, want at most %d to each", c.most, endpoints, limit)
			}
		})
	}
}

// An app with many tokens holds up another's first connection by one of its own.
func TestAppsConnectByTurns(t *testing.T) {
	for _, policy := range []string{"p2c_ewma", "pick_first"} {
		t.Run(policy, func(t *testing.T) {
			c := newCrowd(t, policy, 1, 1)
			c.hold = make(chan struct{})
			var conns []*grpc.ClientConn
			for range 50 {
				conns = append(conns, c.join(t, "many"))
			}
			waitFor(t, "all to wait", func() bool { waiting, _ := c.dials(); return waiting == 49 })
			conns = append(conns, c.join(t, "one"))
			waitFor(t, "the other to wait", func() bool { waiting, _ := c.dials(); return waiting == 50 })
			close(c.hold)
			for _, conn := range conns {
				if err := callOver(patiently(t), conn); err != nil {
					t.Error(err)
				}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			for i, app := range c.order {
				if app == "one" {
					if i > 2 {
						t.Errorf("the other app came as number %d", i)
					}
					return
				}
			}
			t.Error("the other app never came")
		})
	}
}

// A call that waits for its connection's turn ends with its own deadline, and one
// whose connection is closed ends with it. Neither keeps a place.
func TestWaitingForATurnEnds(t *testing.T) {
	for _, policy := range []string{"p2c_ewma", "pick_first"} {
		t.Run(policy, func(t *testing.T) {
			c := newCrowd(t, policy, 1, 1)
			c.hold = make(chan struct{})
			c.join(t, "a")
			waitFor(t, "the first to dial", func() bool { _, active := c.dials(); return active == 1 })
			conn := c.join(t, "b")
			short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if err := callOver(short, conn); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("call: %v", err)
			}
			if waiting, _ := c.dials(); waiting != 1 {
				t.Errorf("%d wait", waiting)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "nobody to wait", func() bool { waiting, _ := c.dials(); return waiting == 0 })
			close(c.hold)
			c.settled(t)
		})
	}
}

// Connections that cannot be made, or are given up while they are being made,
// give their places to others.
func TestFailedDialsGivePlace(t *testing.T) {
	for _, policy := range []string{"p2c_ewma", "pick_first"} {
		t.Run(policy, func(t *testing.T) {
			c := newCrowd(t, policy, 2, 1)
			c.broken.Store(true)
			var conns []*grpc.ClientConn
			for i := range 20 {
				conns = append(conns, c.join(t, fmt.Sprint(i)))
			}
			for _, conn := range conns {
				if err := callOver(patiently(t), conn); status.Code(err) != codes.Unavailable {
					t.Errorf("call: %v", err)
				}
			}
			for _, conn := range conns[:10] {
				_ = conn.Close()
			}
			c.broken.Store(false)
			for _, conn := range conns[10:] {
				waitFor(t, "calls to succeed", func() bool { return callOver(patiently(t), conn) == nil })
			}
			c.settled(t)
		})
	}
}

// Where connections to the endpoint fail slowly, calls of those that wait for
// their turn do not wait for as long as it takes all of them: neither calls that
// began before anything was known of it, nor later ones.
func TestCallsDoNotWaitForATurnInVain(t *testing.T) {
	c := newCrowd(t, "p2c_ewma", 1, 1)
	c.timeout = time.Second
	c.hold = make(chan struct{})
	defer close(c.hold)
	var conns []*grpc.ClientConn
	for i := range 30 { // each takes a second to fail
		conns = append(conns, c.join(t, fmt.Sprint(i)))
	}
	start := time.Now()
	callAll := func() {
		var calls sync.WaitGroup
		for _, conn := range conns {
			calls.Go(func() {
				if err := callOver(patiently(t), conn); status.Code(err) != codes.Unavailable {
					t.Errorf("call: %v", err)
				}
			})
		}
		calls.Wait()
	}
	callAll()
	if _, lost := c.fleet.Endpoints()[0].Lost(); !lost {
		t.Error("the endpoint is not taken for lost")
	}
	callAll()
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("calls took %v to fail", took)
	}
}

// When endpoints come back, all connections to them are made anew, in turns.
func TestReconnectsAreSmoothed(t *testing.T) {
	const limit = 2
	c := newCrowd(t, "p2c_ewma", limit, 1)
	var conns []*grpc.ClientConn
	for i := range 30 {
		conns = append(conns, c.join(t, fmt.Sprint(i)))
	}
	for _, conn := range conns {
		if err := callOver(patiently(t), conn); err != nil {
			t.Fatal(err)
		}
	}
	c.settled(t)
	old := c.endpoints[0]
	old.stop()
	again := serveEndpoint(t, old.addr)
	waitFor(t, "all to be connected again", func() bool { return again.conns.Load() == 30 })
	c.settled(t)
	if c.most > limit {
		t.Errorf("%d dials at once", c.most)
	}
}
