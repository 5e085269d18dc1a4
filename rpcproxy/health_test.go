package rpcproxy

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rpcgate/rpcgate/config"
)

// An endpoint's health is watched over a connection of the pool, which is closed
// when it is idle all the same.
func TestHealthWatchKeepsNoConnectionAlive(t *testing.T) {
	var begun, open atomic.Int64
	watched := func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if info.FullMethod == grpc_health_v1.Health_Watch_FullMethodName {
			begun.Add(1)
			open.Add(1)
			defer open.Add(-1)
		}
		return next(srv, s)
	}
	server := grpc.NewServer(grpc.StreamInterceptor(watched))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); served.Wait() })

	b := newBackend(t, l.Addr().String(), func(cfg *config.Backend) {
		cfg.HealthCheck.Mode, cfg.Pool.IdleTimeout = "auto", 500*time.Millisecond
	}, Options{})
	for _, app := range []string{"a", "b"} {
		// Each app has a connection of its own; what is called is of no matter.
		_, _ = unary(testContext(t), b, Credential{App: app, Token: "x"}, "")
	}
	waitFor(t, "a watch", func() bool { return begun.Load() > 0 })
	waitFor(t, "idle connections to be closed", func() bool {
		live, draining := b.pool.size()
		return live+draining == 0 && open.Load() == 0
	})
}
