package balancer_test

import (
	"context"
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
)

func TestMain(m *testing.M) {
	balancer.Register()
	goleak.VerifyTestMain(m)
}

var policies = []string{"p2c_ewma", "round_robin", "least_request", "ring_hash", "pick_first"}

func TestServiceConfig(t *testing.T) {
	for _, policy := range append(policies, "") {
		text, err := balancer.ServiceConfig(config.Balancer{Policy: policy})
		if err != nil || !json.Valid([]byte(text)) {
			t.Errorf("%q: %s, %v", policy, text, err)
		}
	}
	if text, err := balancer.ServiceConfig(config.Balancer{Policy: "dice"}); err == nil {
		t.Errorf("an unknown policy gives %s", text)
	}
}

func TestNeedsHashKey(t *testing.T) {
	for _, tt := range []struct {
		cfg  config.Balancer
		want bool
	}{
		{config.Balancer{Policy: "ring_hash"}, true},
		{config.Balancer{Policy: "ring_hash", HashHeader: "user"}, false},
		{config.Balancer{Policy: "p2c_ewma"}, false},
	} {
		if got := balancer.NeedsHashKey(tt.cfg); got != tt.want {
			t.Errorf("%+v: %v", tt.cfg, got)
		}
	}
}

// endpoint is a backend that counts, and can be slow.
type endpoint struct {
	addr  string
	grpc  *grpc.Server
	calls atomic.Int64
	delay atomic.Int64 // ns
}

func startEndpoint(t *testing.T) *endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &endpoint{addr: l.Addr().String()}
	e.grpc = grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		e.calls.Add(1)
		var in emptypb.Empty
		if err := s.RecvMsg(&in); err != nil {
			return err
		}
		if md, _ := metadata.FromIncomingContext(s.Context()); len(md["rpcgate-hash-key"]) > 0 {
			return status.Error(codes.InvalidArgument, "the hash key was sent")
		}
		timer := time.NewTimer(time.Duration(e.delay.Load()))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.Context().Done():
		}
		return s.SendMsg(&in)
	}))
	served := make(chan struct{})
	go func() { defer close(served); _ = e.grpc.Serve(l) }()
	t.Cleanup(func() { e.grpc.Stop(); <-served })
	return e
}

type cluster struct {
	endpoints []*endpoint
	resolver  *manual.Resolver
	conn      *grpc.ClientConn
}

func startCluster(t *testing.T, n int, cfg config.Balancer) *cluster {
	t.Helper()
	c := &cluster{resolver: manual.NewBuilderWithScheme("manual")}
	for range n {
		c.endpoints = append(c.endpoints, startEndpoint(t))
	}
	c.resolver.InitialState(c.state(n))
	text, err := balancer.ServiceConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.conn, err = grpc.NewClient("manual:///cluster", grpc.WithResolvers(c.resolver),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.conn.Close() })
	return c
}

// state is the first n endpoints, as a resolver tells them.
func (c *cluster) state(n int) resolver.State {
	var s resolver.State
	for _, e := range c.endpoints[:n] {
		a := resolver.Address{Addr: e.addr}
		s.Addresses = append(s.Addresses, a)
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{a}})
	}
	return s
}

func (c *cluster) call(ctx context.Context) error {
	return c.conn.Invoke(ctx, "/s/M", &emptypb.Empty{}, &emptypb.Empty{})
}

// callAll makes n calls by some callers at once.
func (c *cluster) callAll(t *testing.T, n, callers int, ctx func(i int) context.Context) {
	t.Helper()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				limited, cancel := context.WithTimeout(ctx(int(i)), 10*time.Second)
				if err := c.call(limited); err != nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

func plain(int) context.Context { return context.Background() }

// ready waits until all endpoints serve: policies begin with those that are
// connected first.
func (c *cluster) ready(t *testing.T) {
	t.Helper()
	limit := time.Now().Add(10 * time.Second)
	for {
		c.callAll(t, 20, 1, plain)
		all := true
		for _, e := range c.endpoints {
			all = all && e.calls.Load() > 0
		}
		if all {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("some endpoint gets no calls")
		}
	}
	for _, e := range c.endpoints {
		e.calls.Store(0)
	}
}

func (c *cluster) counts() (counts []int64) {
	for _, e := range c.endpoints {
		counts = append(counts, e.calls.Load())
	}
	return counts
}

func TestPoliciesServeAndSpread(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			c := startCluster(t, 3, config.Balancer{Policy: policy})
			if policy != "pick_first" {
				c.ready(t)
			}
			c.callAll(t, 300, 4, plain)
			counts := c.counts()
			used := 0
			for _, n := range counts {
				if n > 0 {
					used++
				}
			}
			if want := map[bool]int{true: 1, false: 3}[policy == "pick_first"]; used != want {
				t.Errorf("calls went to %v, want %d endpoints used", counts, want)
			}
			// The list shrinks; no call is lost.
			c.resolver.UpdateState(c.state(1))
			c.callAll(t, 30, 4, plain)
		})
	}
}

func TestAppHashKeepsTheEndpoint(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg config.Balancer
		ctx func(app string) context.Context
	}{
		"app": {config.Balancer{Policy: "ring_hash"}, func(app string) context.Context {
			return balancer.WithHashKey(context.Background(), app)
		}},
		"header": {config.Balancer{Policy: "ring_hash", HashHeader: "user"}, func(app string) context.Context {
			return metadata.NewOutgoingContext(context.Background(), metadata.Pairs("user", app))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, 3, tt.cfg)
			hit := map[int]bool{}
			for app := range 20 {
				key := string(rune('a' + app))
				for _, e := range c.endpoints {
					e.calls.Store(0)
				}
				c.callAll(t, 10, 2, func(int) context.Context { return tt.ctx(key) })
				where := -1
				for i, n := range c.counts() {
					if n > 0 && where >= 0 {
						t.Fatalf("app %s was served by several endpoints: %v", key, c.counts())
					}
					if n > 0 {
						where = i
					}
				}
				hit[where] = true
			}
			if len(hit) < 2 {
				t.Errorf("20 apps are served by endpoints %v", hit)
			}
		})
	}
}

func TestP2CAvoidsTheSlow(t *testing.T) {
	c := startCluster(t, 2, config.Balancer{Policy: "p2c_ewma"})
	c.ready(t)
	c.endpoints[0].delay.Store(int64(30 * time.Millisecond))
	c.callAll(t, 2000, 8, plain)
	counts := c.counts()
	if counts[0] == 0 || counts[0]*3 > counts[1] {
		t.Errorf("the slow endpoint got %d calls, the fast one %d", counts[0], counts[1])
	}
}
