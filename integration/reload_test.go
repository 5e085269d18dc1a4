package integration_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// loading makes a call over and over, from several callers, until the test stops
// it; stop returns how many calls there were and the first that failed.
func loading(t *testing.T, call callFunc) (stop func() (int64, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var (
		calls  atomic.Int64
		failed atomic.Pointer[error]
		tasks  sync.WaitGroup
	)
	for range 4 {
		tasks.Go(func() {
			for ctx.Err() == nil {
				if err := call(context.WithoutCancel(ctx)); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
				calls.Add(1)
			}
		})
	}
	end := sync.OnceFunc(func() { cancel(); tasks.Wait() })
	t.Cleanup(end)
	return func() (int64, error) {
		end()
		if err := failed.Load(); err != nil {
			return calls.Load(), *err
		}
		return calls.Load(), nil
	}
}

// spread makes n calls and counts at which of the backends they came out.
func spread(t *testing.T, r *rig, n int, backends ...*testbackend.Server) []int {
	t.Helper()
	for _, b := range backends {
		b.Take()
	}
	for range n {
		must(t, r.echoing())
	}
	got := make([]int, len(backends))
	for i, b := range backends {
		for _, c := range b.Take() {
			if c.Method == echoUnary {
				got[i]++
			}
		}
	}
	return got
}

// A hangup puts other backends and routes in force, and no call is lost by it:
// not by another balancer, nor by other endpoints.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	one, two, three := testbackend.Start(t), testbackend.Start(t), testbackend.Start(t)
	text := func(policy string, endpoints ...*testbackend.Server) string {
		var addresses []string
		for _, e := range endpoints {
			addresses = append(addresses, e.Addr)
		}
		return fmt.Sprintf("backends:\n  - name: echo\n    endpoints: [%s]\n    reflection: true\n    balancer: {policy: %s}\n",
			strings.Join(addresses, ", "), policy)
	}
	r := newRig(t, text("round_robin", one, two))
	redis := fmt.Sprintf("redis: {addresses: [%q]}\n", r.redis.Addr)

	stop := loading(t, r.echoing())
	if !r.Reload(redis + text("ring_hash", one, two)) {
		t.Fatal("another balancer is refused")
	}
	if calls, err := stop(); err != nil {
		t.Errorf("of %d calls one failed: %v", calls, err)
	}
	if got := spread(t, r, 20, one, two); got[0] != 20 && got[1] != 20 {
		t.Errorf("an app's calls went to %v", got)
	}

	stop = loading(t, r.echoing())
	if !r.Reload(redis + text("round_robin", two, three)) {
		t.Fatal("other endpoints are refused")
	}
	if calls, err := stop(); err != nil {
		t.Errorf("of %d calls one failed: %v", calls, err)
	}
	if got := spread(t, r, 20, one, two, three); got[0] != 0 || got[1] == 0 || got[2] == 0 {
		t.Errorf("calls went to %v", got)
	}
}

// What cannot be taken in changes nothing.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, echoConfig(b, ""))
	redis := fmt.Sprintf("redis: {addresses: [%q]}\n", r.redis.Addr)
	for _, tc := range []struct{ name, config, logged string }{
		{"a typing error", redis + echoConfig(b, "timeuot: 1s"), "timeuot"},
		{"a route that fits nothing", redis + echoConfig(b, "") + "routes: [{method: testbackend.Echo/Nothing, auth: none}]\n", "Nothing"},
		{"what needs a restart", redis + echoConfig(b, "") + "error_info: false\n", "error_info"},
		{"a backend that needs what is not there", redis + echoConfig(b, "") + "  - {name: other, endpoints: [127.0.0.1:1], protoset: [missing.pb]}\n", "missing.pb"},
	} {
		if r.Reload(tc.config) {
			t.Errorf("%s is taken", tc.name)
		}
		r.WaitLog("not reloaded", tc.logged)
		must(t, r.echoing())
	}
}

// Backends and routes come and go.
func TestReloadBackends(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
	r := newRig(t, echoConfig(b, ""))
	redis := fmt.Sprintf("redis: {addresses: [%q]}\n", r.redis.Addr)
	r.call(t, "POST", "/v1/users", `{"name": "Ada"}`).failed(t, 404, 5, "NO_ROUTE")
	dials := r.Metric("rpcgate_pool_dials_total", "backend", "echo")

	if !r.Reload(redis + echoConfig(b, "") + fmt.Sprintf("  - {name: shop, endpoints: [%q], reflection: true}\n", shop.Addr)) {
		t.Fatal("another backend is refused")
	}
	must(t, r.shopping())
	must(t, r.echoing())
	if got := r.Metric("rpcgate_pool_dials_total", "backend", "echo"); got > dials+1 {
		t.Errorf("a backend that stayed as it was made %v connections", got-dials)
	}

	if !r.Reload(redis + echoConfig(b, "")) {
		t.Fatal("the backend cannot be taken out again")
	}
	r.call(t, "POST", "/v1/users", `{"name": "Ada"}`).failed(t, 404, 5, "NO_ROUTE")
	must(t, r.echoing())
	endsWell(t, r, 15, slack)
}
