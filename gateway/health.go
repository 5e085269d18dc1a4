package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthServer is the standard gRPC health service, whose watches can be ended:
// no watch ends by itself, so that one would hold the drain to its limit.
type healthServer struct {
	*health.Server
	ending context.Context //nolint:containedctx // a signal to all watches, of no call
	end    context.CancelFunc

	told map[string]bool // services that had a status; watchHealth's, of whichever generation
}

func newHealthServer() *healthServer {
	h := &healthServer{Server: health.NewServer(), told: map[string]bool{}}
	h.ending, h.end = context.WithCancel(context.Background())
	return h
}

// Watch is the health service's, until the drain.
func (h *healthServer) Watch(r *healthpb.HealthCheckRequest, s grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	defer context.AfterFunc(h.ending, cancel)()
	err := h.Server.Watch(r, healthWatch{s, ctx})
	if h.ending.Err() != nil {
		return status.Error(codes.Unavailable, "the gateway is stopping")
	}
	return err
}

// healthWatch is a watch with an end of its own.
type healthWatch struct {
	grpc.ServerStreamingServer[healthpb.HealthCheckResponse]
	ctx context.Context //nolint:containedctx // as grpc.ServerStream has it
}

func (w healthWatch) Context() context.Context { return w.ctx }

// healthInterval is how old the health service's view of a backend may be, and
// soonInterval, of a gateway that does not take calls yet.
const (
	healthInterval = time.Second
	soonInterval   = 100 * time.Millisecond
)

// watchHealth keeps the standard gRPC health service: "" is the gateway, a
// backend's services are known by their full names.
func (g *Gateway) watchHealth(ctx context.Context) {
	for {
		now := g.serviceStatuses()
		for service := range g.health.told {
			if _, routed := now[service]; !routed {
				g.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVICE_UNKNOWN)
				delete(g.health.told, service)
			}
		}
		for service, status := range now {
			g.health.SetServingStatus(service, status)
			g.health.told[service] = true
		}
		interval, status := healthInterval, healthpb.HealthCheckResponse_SERVING
		if !g.takesCalls() {
			interval, status = soonInterval, healthpb.HealthCheckResponse_NOT_SERVING
		}
		g.health.SetServingStatus("", status)
		if !sleep(ctx, interval) {
			return
		}
	}
}

// serviceStatuses says of each routed service whether a backend of it is well.
func (g *Gateway) serviceStatuses() map[string]healthpb.HealthCheckResponse_ServingStatus {
	out := map[string]healthpb.HealthCheckResponse_ServingStatus{}
	s := g.snapshot.Load()
	for backend, services := range s.services {
		healthy := s.backends[backend].Healthy()
		for _, service := range services {
			if healthy {
				out[service] = healthpb.HealthCheckResponse_SERVING
			} else if _, ok := out[service]; !ok {
				out[service] = healthpb.HealthCheckResponse_NOT_SERVING
			}
		}
	}
	return out
}
