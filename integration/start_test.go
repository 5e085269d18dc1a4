package integration_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// A backend that is not there when the gateway starts, or stands still, keeps it
// neither from starting nor from serving the others, and is served once it is
// there.
func TestDeadBackendAtStart(t *testing.T) {
	t.Parallel()
	t.Run("down", func(t *testing.T) {
		t.Parallel()
		addr := gatewaytest.FreeAddress(t)
		r, _ := newEchoRig(t, "", strings.TrimPrefix(shopConfig("", addr), "backends:\n"))
		servesTheOthers(t, r)
		gatewaytest.StartShop(t, addr)
		comesTo(t, r.shopping(), "OK")
		comesTo(t, r.creating(), "OK")
	})
	t.Run("paused", func(t *testing.T) {
		t.Parallel()
		shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
		shop.Pause()
		began := time.Now()
		r, _ := newEchoRig(t, "", strings.TrimPrefix(shopConfig("", shop.Addr), "backends:\n"))
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the start took %v", took)
		}
		servesTheOthers(t, r)
		shop.Resume()
		comesTo(t, r.shopping(), "OK")
		comesTo(t, r.creating(), "OK")
	})
}

// servesTheOthers checks a gateway whose backend shop is not there.
func servesTheOthers(t *testing.T, r *rig) {
	t.Helper()
	must(t, r.echoing())
	must(t, r.invoking(r.conn))
	ends(t, r.shopping(), "ROUTES_PENDING")
	ends(t, r.creating(), "ROUTES_PENDING")
	if got := r.readyz(); got != 200 {
		t.Errorf("/readyz answers %d", got)
	}
	gatewaytest.Eventually(t, func() error { // a backend that stands still shows when connecting took too long
		if got := r.AdminGet("/readyz"); !strings.Contains(got, `"shop":false`) {
			return fmt.Errorf("/readyz says %s", got)
		}
		return nil
	})
}

// Without Redis the gateway starts, says of every credential that it cannot
// tell, and serves as soon as it can.
func TestRedisDownAtStart(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"strict", "lenient"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{Persist: true})
			b := testbackend.Start(t)
			r := &rig{redis: server, app: "acme"}
			r.token = gatewaytest.IssueToken(t, server.Addr, r.app)
			server.Kill()
			r.start(t, "", echoConfig(b, "")+"auth: {mode: "+mode+"}\n")
			stays(t, time.Second, func() error {
				if got := reasonFor(r.echoing()(limited(t))); got != "AUTH_UNAVAILABLE" {
					return fmt.Errorf("the call ended with %s", got)
				}
				return r.isReady(t, false, false)
			})
			ends(t, r.echoingAs("nobody", madeUpToken(1)), "AUTH_UNAVAILABLE")
			untouched(t, b)
			server.Restart()
			up := time.Now()
			comesTo(t, r.echoing(), "OK")
			gatewaytest.Eventually(t, func() error { return r.isReady(t, true, true) })
			if took := time.Since(up); took > slack {
				t.Errorf("it took %v until credentials were verified", took)
			}
			comesTo(t, r.echoingAs("nobody", madeUpToken(1)), "TOKEN_INVALID")

			// It stays in service without the store that it had.
			server.Kill()
			gatewaytest.Eventually(t, func() error { return r.isReady(t, true, false) })
			must(t, r.echoing())
		})
	}
}

// isReady checks what /readyz, the health service and the metrics tell of the
// gateway and of its store.
func (r *rig) isReady(t testing.TB, ready, store bool) error {
	t.Helper()
	code, says, up := http.StatusServiceUnavailable, healthpb.HealthCheckResponse_NOT_SERVING, 0.0
	if ready {
		code, says = http.StatusOK, healthpb.HealthCheckResponse_SERVING
	}
	if store {
		up = 1
	}
	if got := r.readyz(); got != code {
		return fmt.Errorf("/readyz answers %d", got)
	}
	if text := r.AdminGet("/readyz"); !strings.Contains(text, fmt.Sprintf(`"stores":{"redis":%v}`, store)) {
		return fmt.Errorf("/readyz says %s", text)
	}
	answer, err := healthpb.NewHealthClient(r.conn).Check(limited(t), &healthpb.HealthCheckRequest{})
	if err != nil || answer.GetStatus() != says {
		return fmt.Errorf("the health service says %v, %w", answer, err)
	}
	if got := r.Metric("rpcgate_auth_store_up"); got != up {
		return fmt.Errorf("the metric is %v", got)
	}
	return nil
}

// What is wrong with a config is said, all of it, with file and line, and nothing
// is served.
func TestFaultyConfigIsNotServed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config string
		says   []string
	}{
		"unknown key": {"htpp: {address: ':0'}\n", []string{"gateway.yaml:1", "htpp", "http"}},
		"several": {
			"http: {address: nonsense}\nbackends:\n  - name: shop\n    reflection: true\n    timeout: soon\n",
			[]string{"gateway.yaml:1", "http.address", "gateway.yaml:5", "timeout"},
		},
		"not YAML":            {"backends: [", []string{"gateway.yaml"}},
		"missing descriptors": {"backends: [{name: shop, endpoints: ['127.0.0.1:1'], protoset: [none.binpb]}]\nredis: {addresses: ['127.0.0.1:1']}\n", []string{"gateway.yaml:1", "protoset[0]", "no such file"}},
		"two of one name": {
			"redis: {addresses: ['127.0.0.1:1']}\nbackends:\n  - {name: a, endpoints: ['127.0.0.1:1'], reflection: true}\n  - {name: a, endpoints: ['127.0.0.1:2'], reflection: true}\n",
			[]string{"gateway.yaml:4", "name"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusesToStart(t, tc.config, tc.says...)
		})
	}
	t.Run("no file", func(t *testing.T) {
		t.Parallel()
		_, stderr, exit := gatewaytest.Run(t, "serve", "-c", filepath.Join(t.TempDir(), "absent.yaml"))
		if exit != 1 || !strings.Contains(stderr, "absent.yaml") {
			t.Errorf("exit status %d, %s", exit, stderr)
		}
	})
}

// refusesToStart checks that serving a config fails at once and says why.
func refusesToStart(t *testing.T, config string, says ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, exit := gatewaytest.Run(t, "serve", "-c", file)
	if exit != 1 {
		t.Errorf("exit status %d, want 1", exit)
	}
	if stdout != "" {
		t.Errorf("on standard output: %s", stdout)
	}
	for _, part := range says {
		if !strings.Contains(stderr, part) {
			t.Errorf("it does not say %q:\n%s", part, stderr)
		}
	}
}

// A port that another program has is a fault of the start, and named; the ports
// that could be had are given back.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	var listener net.ListenConfig
	taken, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	b := testbackend.Start(t)
	for _, name := range []string{"http", "grpc", "admin"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := echoConfig(b, "") + "redis: {addresses: ['127.0.0.1:1']}\n"
			for _, other := range []string{"http", "grpc", "admin"} {
				addr := "127.0.0.1:0"
				if other == name {
					addr = taken.Addr().String()
				}
				config += fmt.Sprintf("%s: {address: %q}\n", other, addr)
			}
			refusesToStart(t, config, name+".address", taken.Addr().String(), "address already in use")
		})
	}
}
