package integration_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

// The health service knows the gateway as "" and backends by their services'
// names, and asks for no credential.
func TestHealthByServiceName(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	client := healthpb.NewHealthClient(r.conn)
	serving := func(service string) func() error {
		return func() error {
			got, err := client.Check(limited(t), &healthpb.HealthCheckRequest{Service: service})
			if err != nil {
				return err
			}
			if got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
				return fmt.Errorf("%s is %v", service, got.GetStatus())
			}
			return nil
		}
	}
	for _, service := range []string{"", "testbackend.Echo", "testbackend.Admin"} {
		gatewaytest.Eventually(t, serving(service))
	}
	if err := serving("nowhere.Service")(); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
	untouched(t, b)
}

// A backend that is down is told as such, and again when it is back; the gateway
// itself stays well.
func TestHealthFollowsTheBackend(t *testing.T) {
	t.Parallel()
	addr := gatewaytest.FreeAddress(t)
	shop := gatewaytest.StartShop(t, addr)
	r := newRig(t, fmt.Sprintf("backends:\n  - {name: shop, endpoints: [%q], reflection: true, reflection_interval: 100ms}\n", addr))
	client := healthpb.NewHealthClient(r.conn)
	is := func(service string, want healthpb.HealthCheckResponse_ServingStatus) func() error {
		return func() error {
			got, err := client.Check(limited(t), &healthpb.HealthCheckRequest{Service: service})
			if err != nil {
				return err
			}
			if got.GetStatus() != want {
				return fmt.Errorf("%q is %v, not %v", service, got.GetStatus(), want)
			}
			return nil
		}
	}
	gatewaytest.Eventually(t, is("shop.UserService", healthpb.HealthCheckResponse_SERVING))
	shop.Kill()
	gatewaytest.Eventually(t, is("shop.UserService", healthpb.HealthCheckResponse_NOT_SERVING))
	if err := is("", healthpb.HealthCheckResponse_SERVING)(); err != nil {
		t.Error(err)
	}
	gatewaytest.StartShop(t, addr)
	gatewaytest.Eventually(t, is("shop.UserService", healthpb.HealthCheckResponse_SERVING))
}

// The admin port tells what it has to.
func TestAdminPort(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "")
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
	sameJSON(t, r.AdminGet("/healthz"), `{"status":"ok"}`)
	for _, path := range []string{"/readyz", "/metrics", "/debug/pprof/goroutine?debug=1"} {
		if r.AdminGet(path) == "" {
			t.Errorf("%s is empty", path)
		}
	}
	gatewaytest.Eventually(t, func() error {
		if n := r.Metric("rpcgate_calls_total", "backend", "echo", "protocol", "json"); n != 1 {
			return fmt.Errorf("%v calls are counted", n)
		}
		return nil
	})
	// Callers' ports serve none of it.
	for _, path := range []string{"/metrics", "/healthz", "/debug/pprof/"} {
		r.call(t, "GET", path, "").failed(t, http.StatusNotFound, codes.NotFound, "NO_ROUTE")
	}
	stdout, stderr, exit := gatewaytest.Run(t, "health", "--admin", r.Admin)
	if exit != 0 {
		t.Error(errors.New(stdout + stderr))
	}
}
