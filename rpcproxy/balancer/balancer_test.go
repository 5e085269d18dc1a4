package balancer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

func TestMain(m *testing.M) {
	balancer.Register()
	goleak.VerifyTestMain(m)
}

var policies = []string{"p2c_ewma", "round_robin", "weighted_round_robin", "least_request", "ring_hash"}

func TestServiceConfig(t *testing.T) {
	for _, policy := range append(policies, "pick_first", "") {
		text, err := balancer.ServiceConfig(policy)
		if err != nil || !json.Valid([]byte(text)) {
			t.Errorf("%q: %s, %v", policy, text, err)
		}
	}
}

// endpoint is a backend that counts, can be slow, and can hold its calls.
type endpoint struct {
	addr  string
	calls atomic.Int64
	conns atomic.Int64
	delay atomic.Int64 // ns
	held  atomic.Bool  // calls wait for free to be closed
	free  chan struct{}
	stop  func()
}

func startEndpoint(t *testing.T) *endpoint {
	t.Helper()
	return serveEndpoint(t, "127.0.0.1:0")
}

func serveEndpoint(t *testing.T, address string) *endpoint {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	e := &endpoint{addr: l.Addr().String(), free: make(chan struct{})}
	server := grpc.NewServer(grpc.UnknownServiceHandler(e.serve), grpc.StatsHandler(countConns{&e.conns}))
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	e.stop = func() { server.Stop(); <-served }
	t.Cleanup(e.stop)
	return e
}

func (e *endpoint) serve(_ any, s grpc.ServerStream) error {
	if method, _ := grpc.MethodFromServerStream(s); method != "/s/M" {
		return status.Error(codes.Unimplemented, method)
	}
	e.calls.Add(1)
	var in emptypb.Empty
	if err := s.RecvMsg(&in); err != nil {
		return err
	}
	timer := time.NewTimer(time.Duration(e.delay.Load()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.Context().Done():
	}
	if e.held.Load() {
		select {
		case <-e.free:
		case <-s.Context().Done():
		}
	}
	return s.SendMsg(&in)
}

// countConns counts a server's connections.
type countConns struct{ n *atomic.Int64 }

func (countConns) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (countConns) HandleRPC(context.Context, stats.RPCStats)                       {}
func (countConns) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

func (c countConns) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		c.n.Add(1)
	case *stats.ConnEnd:
		c.n.Add(-1)
	}
}

// cluster is endpoints and a connection to them, with what is known of them.
type cluster struct {
	endpoints []*endpoint
	fleet     *fleet.Fleet
	resolver  *manual.Resolver
	conn      *grpc.ClientConn
	dialer    func(context.Context, string) (net.Conn, error) // of startSlow
	ahead     atomic.Int64                                    // of the fleet's clock
	timeout   time.Duration                                   // of an attempt to connect; 0: a second
}

func startCluster(t *testing.T, n int, cfg config.Balancer) *cluster {
	t.Helper()
	c := &cluster{resolver: manual.NewBuilderWithScheme("manual")}
	var err error
	start := time.Now()
	c.fleet, err = fleet.New(config.Backend{Balancer: cfg}, fleet.Options{
		Now: func() time.Duration { return time.Since(start) + time.Duration(c.ahead.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		c.endpoints = append(c.endpoints, startEndpoint(t))
	}
	c.resolver.InitialState(c.state(c.endpoints...))
	c.conn = c.dial(t, cfg.Policy)
	return c
}

// dial makes a connection of the cluster's, one of perhaps several.
func (c *cluster) dial(t *testing.T, policy string, o ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	text, err := balancer.ServiceConfig(policy)
	if err != nil {
		t.Fatal(err)
	}
	o = append(o, grpc.WithResolvers(c.resolver),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(text),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, MaxDelay: 10 * time.Millisecond}, MinConnectTimeout: cmp.Or(c.timeout, time.Second),
		}))
	conn, err := grpc.NewClient("manual:///cluster", o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// state is endpoints as a resolver tells them.
func (c *cluster) state(endpoints ...*endpoint) resolver.State {
	var s resolver.State
	list := make([]fleet.Info, 0, len(endpoints))
	for _, e := range endpoints {
		list = append(list, fleet.Info{Address: e.addr})
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: e.addr}}})
	}
	return balancer.WithFleet(s, c.fleet, c.fleet.Update(list))
}

// choosing is a context that tells the balancer of a choice.
type choosing struct {
	context.Context

	choice *fleet.Choice
}

func (c choosing) Value(key any) any {
	if key == (balancer.ChoiceKey{}) {
		return c.choice
	}
	return c.Context.Value(key)
}

// choose makes a call with a choice, and tells the fleet how it went.
func (c *cluster) choose(ctx context.Context, choice *fleet.Choice) error {
	start := time.Now()
	err := c.call(choosing{ctx, choice})
	outcome := fleet.Success
	if err != nil {
		outcome = fleet.Failure
	}
	c.fleet.Done(choice, outcome, time.Since(start))
	return err
}

func (c *cluster) call(ctx context.Context) error {
	return c.conn.Invoke(ctx, "/s/M", &emptypb.Empty{}, &emptypb.Empty{})
}

// callAll makes n calls by some callers at once, each with a choice of its own.
func (c *cluster) callAll(t *testing.T, n, callers int, choice func() *fleet.Choice) {
	t.Helper()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range callers {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				limited, cancel := context.WithTimeout(context.Background(), patience)
				if err := c.choose(limited, choice()); err != nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

func whichever() *fleet.Choice { return &fleet.Choice{} }

func keyed(key string) func() *fleet.Choice {
	return func() *fleet.Choice { return &fleet.Choice{Key: fleet.HashKey(key), Keyed: true} }
}

// patience is how long tests wait for what must happen.
const patience = 10 * time.Second

// waitFor waits until the condition holds.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// ready waits until all endpoints serve: a connection begins with those that
// are connected first.
func (c *cluster) ready(t *testing.T) {
	t.Helper()
	waitFor(t, "each endpoint to get calls", func() bool {
		c.callAll(t, 20, 1, whichever)
		return !slices.Contains(c.counts(), 0)
	})
	c.reset()
}

func (c *cluster) counts() (counts []int64) {
	for _, e := range c.endpoints {
		counts = append(counts, e.calls.Load())
	}
	return counts
}

func (c *cluster) reset() {
	for _, e := range c.endpoints {
		e.calls.Store(0)
	}
}

func TestPoliciesServeAndSpread(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			c := startCluster(t, 3, config.Balancer{Policy: policy})
			c.ready(t)
			// p2c_ewma may leave one alone for a second that a busy machine made look slow.
			waitFor(t, "each endpoint to get calls", func() bool {
				c.callAll(t, 300, 4, whichever)
				return !slices.Contains(c.counts(), 0)
			})
			// The list shrinks; no call is lost.
			c.resolver.UpdateState(c.state(c.endpoints[0]))
			c.callAll(t, 30, 4, whichever)
		})
	}
}

func TestPickFirst(t *testing.T) {
	c := startCluster(t, 3, config.Balancer{Policy: "pick_first"})
	c.callAll(t, 30, 4, whichever)
	counts := c.counts()
	slices.Sort(counts)
	if !slices.Equal(counts, []int64{0, 0, 30}) {
		t.Errorf("calls went to %v", counts)
	}
}

func TestRingHashKeepsTheEndpoint(t *testing.T) {
	c := startCluster(t, 3, config.Balancer{Policy: "ring_hash"})
	c.ready(t)
	hit := map[int]bool{}
	for app := range 20 {
		c.reset()
		c.callAll(t, 10, 2, keyed(fmt.Sprint(app)))
		counts := c.counts()
		at := slices.Index(counts, 10)
		if at < 0 {
			t.Fatalf("app %d was served by several endpoints: %v", app, counts)
		}
		hit[at] = true
	}
	if len(hit) < 2 {
		t.Errorf("20 apps are served by endpoints %v", hit)
	}
}

func TestP2CAvoidsTheSlow(t *testing.T) {
	c := startCluster(t, 2, config.Balancer{Policy: "p2c_ewma"})
	c.ready(t)
	c.endpoints[0].delay.Store(int64(30 * time.Millisecond))
	c.callAll(t, 2000, 8, whichever)
	counts := c.counts()
	if counts[0] == 0 || counts[0]*3 > counts[1] {
		t.Errorf("the slow endpoint got %d calls, the fast one %d", counts[0], counts[1])
	}
}

// What one connection learns, another knows.
func TestConnectionsKnowTheSame(t *testing.T) {
	c := startCluster(t, 2, config.Balancer{Policy: "p2c_ewma"})
	c.ready(t)
	failing := c.fleet.NewSet(c.fleet.Endpoints()[:1])
	choice := whichever()
	failing.Pick(choice)
	c.ahead.Store(int64(time.Minute)) // or the calls before would weigh more
	c.fleet.Done(choice, fleet.Failure, 0)
	c.conn = c.dial(t, "p2c_ewma")
	c.conn.Connect()
	waitFor(t, "the other connection", func() bool { return slices.Min(connections(c.fleet)) == 2 })
	c.callAll(t, 1, 1, whichever) // its picker may not know both yet
	c.reset()
	c.callAll(t, 20, 1, whichever)
	if counts := c.counts(); counts[0] > 5 {
		t.Errorf("the endpoint that fails got %d calls of 20 on a new connection", counts[0])
	}
}

// connections is how many there are to each endpoint.
func connections(f *fleet.Fleet) (n []int) {
	for _, e := range f.Endpoints() {
		n = append(n, e.Connections())
	}
	return n
}

// On a new connection that has only an endpoint ready that is out of use, a call
// waits for one that others are connected to.
func TestNewConnectionWaitsForAUsableEndpoint(t *testing.T) {
	c := startCluster(t, 2, config.Balancer{Policy: "round_robin"})
	c.ready(t)
	c.fleet.Endpoints()[0].SetHealth(fleet.NotServing)
	connect := make(chan struct{})
	c.conn = c.dial(t, "round_robin", grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		if address == c.endpoints[1].addr {
			<-connect
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}))
	result := make(chan error)
	go func() { result <- c.choose(context.Background(), whichever()) }()
	waitFor(t, "the connection to the first", func() bool { return slices.Equal(connections(c.fleet), []int{2, 1}) })
	close(connect)
	if err := <-result; err != nil {
		t.Error(err)
	}
	if counts := c.counts(); !slices.Equal(counts, []int64{0, 1}) {
		t.Errorf("calls went to %v", counts)
	}
	// With none to wait for, it goes where it can.
	c.reset()
	c.resolver.UpdateState(c.state(c.endpoints[0]))
	c.callAll(t, 3, 1, whichever)
}

// A call without a choice, such as one of reflection, is served and counts for
// nothing.
func TestCallWithoutChoice(t *testing.T) {
	c := startCluster(t, 2, config.Balancer{Policy: "least_request"})
	for range 10 {
		if err := c.call(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range c.fleet.Endpoints() {
		if n := e.InFlight(); n != 0 {
			t.Errorf("%d calls in flight to %s", n, e.Address())
		}
	}
}

// An endpoint that leaves gets no more calls, and finishes those it has.
func TestEndpointThatLeavesFinishesItsCalls(t *testing.T) {
	c := startCluster(t, 2, config.Balancer{Policy: "round_robin"})
	c.ready(t)
	leaving := c.endpoints[0]
	leaving.held.Store(true)
	results := make(chan error, 2)
	for range 2 {
		go func() { results <- c.choose(context.Background(), whichever()) }()
	}
	if err := <-results; err != nil { // the other endpoint's
		t.Error(err)
	}
	waitFor(t, "the call", func() bool { return leaving.calls.Load() == 1 })
	c.resolver.UpdateState(c.state(c.endpoints[1]))
	c.callAll(t, 20, 4, whichever)
	if n := leaving.calls.Load(); n != 1 {
		t.Errorf("the endpoint that left got %d calls more", n-1)
	}
	close(leaving.free)
	if err := <-results; err != nil {
		t.Errorf("the call of the endpoint that left: %v", err)
	}
	waitFor(t, "the connection to end", func() bool { return leaving.conns.Load() == 0 })
}

// An endpoint that restarts is connected to again, though no call asks for it.
func TestReconnects(t *testing.T) {
	c := startCluster(t, 2, config.Balancer{Policy: "round_robin"})
	c.ready(t)
	c.endpoints[0].stop()
	waitFor(t, "the loss to be seen", func() bool { return slices.Equal(connections(c.fleet), []int{0, 1}) })
	c.callAll(t, 20, 4, whichever) // by the other
	waitFor(t, "the endpoint to be shown as unreachable", func() bool {
		lost := c.fleet.View()[0]
		return lost.State == fleet.StateUnreachable && strings.Contains(lost.Reason, c.endpoints[0].addr)
	})
	c.endpoints[0] = serveEndpoint(t, c.endpoints[0].addr)
	waitFor(t, "the connection", func() bool { return slices.Equal(connections(c.fleet), []int{1, 1}) })
	if v := c.fleet.View()[0]; v.State != fleet.StateOK {
		t.Errorf("it is shown as %+v", v)
	}
	c.reset()
	c.callAll(t, 20, 1, whichever)
	if slices.Contains(c.counts(), 0) {
		t.Errorf("calls went to %v", c.counts())
	}
}

// With no endpoint to be reached calls fail, and do not wait; with one that is
// just being connected to they wait.
func TestUnreachable(t *testing.T) {
	c := startCluster(t, 2, config.Balancer{Policy: "round_robin"})
	c.ready(t)
	for _, e := range c.endpoints {
		e.stop()
	}
	waitFor(t, "calls to fail", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := c.choose(ctx, whichever())
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		return err != nil && strings.Contains(err.Error(), "last connection error")
	})
	// The list is emptied, and filled again.
	c.resolver.UpdateState(c.state())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.choose(ctx, whichever()); status.Code(err) != codes.Unavailable {
		t.Errorf("without endpoints: %v", err)
	}
	c.endpoints = []*endpoint{startEndpoint(t)}
	c.resolver.UpdateState(c.state(c.endpoints...))
	c.callAll(t, 1, 1, whichever)
}

// A state without a fleet is refused, and the last one that had one stays.
func TestStateWithoutFleet(t *testing.T) {
	c := startCluster(t, 1, config.Balancer{Policy: "round_robin"})
	c.ready(t)
	c.resolver.UpdateState(resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: "127.0.0.1:1"}}}}})
	c.callAll(t, 5, 1, whichever)
}
