package balancer_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// withHealth is endpoints with grpc.health.v1, and a connection to them.
type withHealth struct {
	*cluster

	health  []*health.Server
	servers []*grpc.Server
	// How many watches are open, and how many were begun, at all endpoints.
	open, begun atomic.Int64
	refuse      atomic.Uint32 // watches with this code
}

func startWithHealth(t *testing.T, n int, change func(*config.Backend)) *withHealth {
	t.Helper()
	cfg := config.DefaultBackend("test")
	cfg.Balancer.Policy = "round_robin"
	if change != nil {
		change(&cfg)
	}
	f, err := fleet.New(cfg, fleet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &withHealth{cluster: &cluster{resolver: manual.NewBuilderWithScheme("manual"), fleet: f}}
	for range n {
		e := &endpoint{free: make(chan struct{})}
		watched := func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if info.FullMethod == grpc_health_v1.Health_Watch_FullMethodName {
				h.begun.Add(1)
				h.open.Add(1)
				defer h.open.Add(-1)
				if code := codes.Code(h.refuse.Load()); code != codes.OK {
					return status.Error(code, "refused")
				}
			}
			return next(srv, ss)
		}
		server := grpc.NewServer(grpc.UnknownServiceHandler(e.serve), grpc.StreamInterceptor(watched))
		says := health.NewServer()
		grpc_health_v1.RegisterHealthServer(server, says)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		e.addr = l.Addr().String()
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(l) }()
		e.stop = func() { server.Stop(); <-served }
		t.Cleanup(e.stop)
		h.endpoints = append(h.endpoints, e)
		h.health = append(h.health, says)
		h.servers = append(h.servers, server)
	}
	h.resolver.InitialState(h.state(h.endpoints...))
	h.conn = h.dial(t, cfg.Balancer.Policy)
	return h
}

// wait waits until so many watches are open.
func (h *withHealth) wait(t *testing.T, open int64) {
	t.Helper()
	waitFor(t, "watches", func() bool { return h.open.Load() == open })
}

func (h *withHealth) is(i int, want fleet.Health) func() bool {
	return func() bool { return h.fleet.Endpoints()[i].Health() == want }
}

func TestEndpointThatDoesNotServeGetsNoCalls(t *testing.T) {
	h := startWithHealth(t, 3, nil)
	h.ready(t)
	for range 3 {
		h.health[0].SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		waitFor(t, "the endpoint to be unhealthy", h.is(0, fleet.NotServing))
		h.reset()
		h.callAll(t, 30, 1, whichever)
		if n := h.counts()[0]; n != 0 {
			t.Errorf("it got %d calls", n)
		}
		h.health[0].SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
		waitFor(t, "the endpoint to be healthy", h.is(0, fleet.Serving))
		h.reset()
		h.callAll(t, 30, 1, whichever)
		if n := h.counts()[0]; n == 0 {
			t.Error("it got no calls when it served again")
		}
	}
}

// However many connections there are, each endpoint is watched over one of them;
// when that one is closed, over another; and after the last not at all.
func TestEndpointsAreWatchedOnce(t *testing.T) {
	h := startWithHealth(t, 3, nil)
	h.ready(t)
	conns := []*grpc.ClientConn{h.conn}
	for range 9 {
		h.conn = h.dial(t, "round_robin")
		h.callAll(t, 3, 1, whichever)
		conns = append(conns, h.conn)
	}
	h.wait(t, 3)
	if n := h.begun.Load(); n != 3 {
		t.Errorf("%d watches were begun", n)
	}
	for i, conn := range conns {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if i < len(conns)-1 {
			h.wait(t, 3)
			h.health[1].SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
			waitFor(t, "the endpoint to be unhealthy", h.is(1, fleet.NotServing))
			h.health[1].SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
			waitFor(t, "the endpoint to be healthy", h.is(1, fleet.Serving))
		}
	}
	h.wait(t, 0)
}

// An endpoint that leaves the list is watched no more, one that joins it is.
func TestWatchesFollowTheList(t *testing.T) {
	h := startWithHealth(t, 3, nil)
	h.resolver.UpdateState(h.state(h.endpoints[:2]...))
	h.conn.Connect()
	h.wait(t, 2)
	h.resolver.UpdateState(h.state(h.endpoints...))
	h.wait(t, 3)
	h.resolver.UpdateState(h.state(h.endpoints[2]))
	h.wait(t, 1)
}

// Who does not offer it is asked once over a connection.
func TestHealthThatIsNotOffered(t *testing.T) {
	for _, code := range []codes.Code{codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied} {
		h := startWithHealth(t, 2, nil)
		h.refuse.Store(uint32(code))
		h.ready(t)
		waitFor(t, "all to be asked", func() bool { return h.begun.Load() >= 2 && h.open.Load() == 0 })
		h.callAll(t, 20, 2, whichever)
		if n := h.begun.Load(); n != 2 {
			t.Errorf("%v: two endpoints were asked %d times", code, n)
		}
	}
}

func TestHealthIsSwitchedOff(t *testing.T) {
	h := startWithHealth(t, 2, func(b *config.Backend) { b.HealthCheck.Mode = "off" })
	h.ready(t)
	if n := h.begun.Load(); n != 0 {
		t.Errorf("endpoints were asked %d times", n)
	}
}

func TestHealthOfOneService(t *testing.T) {
	h := startWithHealth(t, 2, func(b *config.Backend) { b.HealthCheck.Service = "a.B" })
	h.health[0].SetServingStatus("a.B", grpc_health_v1.HealthCheckResponse_SERVING)
	h.conn.Connect()
	waitFor(t, "the one that serves it", h.is(0, fleet.Serving))
	waitFor(t, "the one that does not", h.is(1, fleet.NotServing))
}

// A server that is told to stop says GOAWAY and waits for its streams to end: it
// must not wait for the watch.
func TestWatchDoesNotHoldUpDraining(t *testing.T) {
	h := startWithHealth(t, 2, nil)
	h.ready(t)
	h.wait(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	drained := make(chan struct{})
	go func() { defer close(drained); h.servers[0].GracefulStop() }()
	select {
	case <-drained:
	case <-ctx.Done():
		t.Fatal("the server waits for the watch")
	}
	h.callAll(t, 20, 2, whichever)
}
