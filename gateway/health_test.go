package gateway

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// A reload has another watch of the backends' health; a service that it takes
// out is unknown from then on, and not for ever as it was.
func TestHealthForgetsServicesOfEarlierGenerations(t *testing.T) {
	t.Parallel()
	g, _, _ := newTestGateway(nil)
	g.health = newHealthServer()
	shop := config.DefaultBackend("shop")
	shop.Endpoints = []string{"127.0.0.1:1"}
	b, err := rpcproxy.New(shop, rpcproxy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	n := generation{cfg: g.cfg, backends: map[string]*rpcproxy.Backend{"shop": b}}
	over, cancel := context.WithCancel(t.Context())
	cancel() // each watch looks once
	statusOf := func(service string) healthpb.HealthCheckResponse_ServingStatus {
		answer, err := g.health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if status.Code(err) == codes.NotFound {
			return healthpb.HealthCheckResponse_SERVICE_UNKNOWN
		}
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetStatus()
	}
	for _, services := range [][]string{{"shop.Old", "shop.Both"}, {"shop.Both", "shop.New"}} {
		g.snapshot.Store(&snapshot{generation: n, services: map[string][]string{"shop": services}})
		g.watchHealth(over)
		for _, service := range services {
			if got := statusOf(service); got != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("%s is %v", service, got)
			}
		}
	}
	if got := statusOf("shop.Old"); got != healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Errorf("a service that is not routed any more is %v", got)
	}
}
