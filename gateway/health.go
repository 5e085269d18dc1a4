package gateway

import (
	"context"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthInterval is how old the health service's view of a backend may be.
const healthInterval = time.Second

// watchHealth keeps the standard gRPC health service: "" is the gateway, a
// backend's services are known by their full names.
func (g *Gateway) watchHealth(ctx context.Context) {
	for {
		for backend, services := range g.snapshot.Load().services {
			status := healthpb.HealthCheckResponse_NOT_SERVING
			if g.backends[backend].Healthy() {
				status = healthpb.HealthCheckResponse_SERVING
			}
			for _, service := range services {
				g.health.SetServingStatus(service, status)
			}
		}
		if !sleep(ctx, healthInterval) {
			return
		}
	}
}
