package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

const ms = time.Millisecond

// How a slow endpoint is connected to, where it is not by how long that takes.
const (
	never   = -1 * ms // no answer
	refused = -2 * ms // after refusedAfter
)

const refusedAfter = 40 * ms

// startSlow starts a cluster in a bubble of synctest's, to whose endpoints it
// takes so long to connect. The metadata are those of the endpoints, by index.
func startSlow(t *testing.T, cfg config.Balancer, metadata []map[string]string, connect ...time.Duration) *cluster {
	t.Helper()
	c := &cluster{resolver: manual.NewBuilderWithScheme("manual")}
	var err error
	if c.fleet, err = fleet.New(config.Backend{Balancer: cfg}, fleet.Options{}); err != nil {
		t.Fatal(err)
	}
	listeners := map[string]*bufconn.Listener{}
	delays := map[string]time.Duration{}
	var list []fleet.Info
	for i, delay := range connect {
		e := &endpoint{addr: fmt.Sprintf("10.0.0.%d:1", i), free: make(chan struct{})}
		l := bufconn.Listen(1 << 16)
		server := grpc.NewServer(grpc.UnknownServiceHandler(e.serve))
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(l) }()
		t.Cleanup(func() { server.Stop(); <-served })
		c.endpoints = append(c.endpoints, e)
		listeners[e.addr], delays[e.addr] = l, delay
		info := fleet.Info{Address: e.addr}
		if i < len(metadata) {
			info.Metadata = metadata[i]
		}
		list = append(list, info)
	}
	state := c.state(c.endpoints...)
	c.resolver.InitialState(balancer.WithFleet(state, c.fleet, c.fleet.Update(list)))
	c.dialer = func(ctx context.Context, address string) (net.Conn, error) {
		delay := delays[address]
		var connected <-chan time.Time
		switch delay {
		case never:
		case refused:
			connected = time.After(refusedAfter)
		default:
			connected = time.After(delay)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-connected:
		}
		if delay == refused {
			return nil, errors.New("refused")
		}
		return listeners[address].DialContext(ctx)
	}
	c.conn = c.dial(t, cfg.Policy, grpc.WithContextDialer(c.dialer))
	return c
}

// The first calls of a fleet wait until of each endpoint is known that it can be
// connected to, or cannot, but for no longer than a quarter of a second.
func TestFirstCallsWaitForTheOtherEndpoints(t *testing.T) {
	for name, tt := range map[string]struct {
		connect []time.Duration
		wait    time.Duration
		want    []int64 // of 30 calls in turn
	}{
		"all at once":          {[]time.Duration{0, 0, 0}, 0, []int64{10, 10, 10}},
		"one is late":          {[]time.Duration{0, 100 * ms, 30 * ms}, 100 * ms, []int64{10, 10, 10}},
		"all are slow":         {[]time.Duration{700 * ms, 800 * ms, 900 * ms}, 900 * ms, []int64{10, 10, 10}},
		"one refuses":          {[]time.Duration{0, refused, 0}, refusedAfter, []int64{15, 0, 15}},
		"one does not answer":  {[]time.Duration{0, never, 0}, 250 * ms, []int64{15, 0, 15}},
		"one is far too late":  {[]time.Duration{0, 400 * ms, 0}, 250 * ms, []int64{15, 0, 15}},
		"there is one":         {[]time.Duration{20 * ms}, 20 * ms, []int64{30}},
		"the only one to come": {[]time.Duration{refused, refused, 100 * ms}, 100 * ms, []int64{0, 0, 30}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startSlow(t, config.Balancer{Policy: "round_robin"}, nil, tt.connect...)
				start := time.Now()
				c.callAll(t, 30, 30, whichever)
				if waited := time.Since(start); waited != tt.wait {
					t.Errorf("the first calls took %v", waited)
				}
				counts := c.counts()
				for i, n := range counts {
					if n != tt.want[i] {
						t.Fatalf("calls went to %v", counts)
					}
				}
			})
		})
	}
}

// What is known of the fleet is known of it to each policy, and to calls that
// are to stay in a zone, with a canary or with their key.
func TestFirstCallsGoWhereTheyBelong(t *testing.T) {
	metadata := []map[string]string{{"zone": "far"}, {"zone": "near", "version": "v2"}, {"zone": "near"}}
	v2 := fleet.NewFilter(config.Match{"version": "v2"})
	for _, policy := range policies {
		for name, tt := range map[string]struct {
			zone   config.Zone
			choice fleet.Choice
			wrong  []int // get no call
		}{
			"zone":   {zone: config.Zone{Name: "near", SpillBelow: 0.5}, wrong: []int{0}},
			"canary": {choice: fleet.Choice{Filter: v2}, wrong: []int{0, 2}},
		} {
			t.Run(policy+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := startSlow(t, config.Balancer{Policy: policy, Zone: tt.zone}, metadata, 0, 5*ms, 6*ms)
					c.callAll(t, 40, 40, func() *fleet.Choice { choice := tt.choice; return &choice })
					for _, i := range tt.wrong {
						if n := c.endpoints[i].calls.Load(); n > 0 {
							t.Errorf("%d of 40 calls went to endpoint %d", n, i)
						}
					}
				})
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := startSlow(t, config.Balancer{Policy: "ring_hash"}, nil, 0, 5*ms, 6*ms)
		for range 2 { // the second time all are connected to
			c.callAll(t, 10, 10, keyed("a"))
		}
		if counts := c.counts(); slices.Max(counts) != 20 {
			t.Errorf("the calls of one key went to %v", counts)
		}
	})
}

// An endpoint that never answers makes the fleet's first calls wait, and no other
// ones: not those of the next credential, nor of endpoints that are new.
func TestOnlyAFleetsFirstCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSlow(t, config.Balancer{Policy: "round_robin"}, nil, 0, never, never)
		c.resolver.UpdateState(c.state(c.endpoints[:2]...))
		for i, want := range []time.Duration{250 * ms, 0, 0} {
			start := time.Now()
			c.callAll(t, 5, 5, whichever)
			if waited := time.Since(start); waited != want {
				t.Errorf("on connection %d the first calls took %v", i, waited)
			}
			c.conn = c.dial(t, "round_robin", grpc.WithContextDialer(c.dialer))
		}
		c.resolver.UpdateState(c.state(c.endpoints...))
		synctest.Wait()
		start := time.Now()
		c.callAll(t, 5, 5, whichever)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("with a new endpoint calls took %v", waited)
		}
	})
}

// A call that has little time does not lose it by waiting.
func TestCallWithLittleTimeDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSlow(t, config.Balancer{Policy: "round_robin"}, nil, 0, never)
		ctx, cancel := context.WithTimeout(t.Context(), 400*ms)
		defer cancel()
		start := time.Now()
		if err := c.choose(ctx, whichever()); err != nil || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// A connection that is closed while its calls wait ends them, and leaves nothing
// behind.
func TestCloseWhileTheFirstCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSlow(t, config.Balancer{Policy: "round_robin"}, nil, 0, never)
		result := make(chan error)
		go func() { result <- c.choose(context.Background(), whichever()) }()
		synctest.Wait()
		if n := connections(c.fleet); !slices.Equal(n, []int{1, 0}) {
			t.Fatalf("connections are %v", n)
		}
		if err := c.conn.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err == nil {
			t.Error("the call succeeded")
		}
		if n := connections(c.fleet); !slices.Equal(n, []int{0, 0}) {
			t.Errorf("connections are %v", n)
		}
		time.Sleep(time.Second) // past when the calls would have gone on
		synctest.Wait()
	})
}
