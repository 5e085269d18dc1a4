package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

// shopConfig is a gateway before shops at fixed addresses.
func shopConfig(settings string, addrs ...string) string {
	text := fmt.Sprintf("backends:\n  - name: shop\n    endpoints: [%s]\n    reflection: true\n", strings.Join(addrs, ", "))
	for line := range strings.Lines(settings) {
		text += "    " + strings.TrimSpace(line) + "\n"
	}
	return text + quiet
}

// creating creates a user over gRPC.
func (r *rig) creating() callFunc {
	users := shoppb.NewUserServiceClient(r.conn)
	return func(ctx context.Context) error {
		_, err := users.CreateUser(r.as(ctx), &shoppb.CreateUserRequest{Name: "Ada"})
		return err
	}
}

// A backend that is killed fails calls for as long as it is down, each of them at
// once and by the name of what is wrong; soon after it is back none fails.
func TestBackendKilledAndRestartedUnderLoad(t *testing.T) {
	t.Parallel()
	for _, breaker := range []string{"adaptive", "threshold", "off"} {
		t.Run(breaker, func(t *testing.T) {
			t.Parallel()
			shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
			r := newRig(t, shopConfig("breaker: {kind: "+breaker+"}", shop.Addr))
			callers := startLoad(t, 2, r.shopping(), r.creating())
			callers.awaitMore(100)
			callers.only()

			down := time.Now()
			shop.Kill()
			reason := "BREAKER_OPEN"
			if breaker == "off" {
				reason = "BACKEND_UNREACHABLE"
			}
			callers.awaitFailures(100, reason)
			gatewaytest.StartShop(t, shop.Addr)
			up := time.Now()
			last := callers.steady(time.Second)
			t.Logf("down for %v, last failure %v after it was up", up.Sub(down), last.Sub(up))
			if took := last.Sub(up); took > 8*time.Second {
				t.Errorf("calls failed until %v after the backend was up", took)
			}
			callers.stop()
			callers.only("BACKEND_UNREACHABLE", "BREAKER_OPEN")
			if first := callers.firstFailure(); first.Before(down.Add(-slack)) {
				t.Errorf("a call failed %v before the backend was killed", down.Sub(first))
			}
			if callers.slowest > 2*time.Second+slack { // the route's limit
				t.Errorf("the slowest call took %v", callers.slowest)
			}
		})
	}
}

// The error for a backend that is not there says which, where, and what to do.
func TestUnreachableBackendIsNamed(t *testing.T) {
	t.Parallel()
	shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
	r := newRig(t, shopConfig("breaker: {kind: off}", shop.Addr))
	must(t, r.shopping())
	shop.Kill()
	comesTo(t, r.shopping(), "BACKEND_UNREACHABLE")
	for name, err := range map[string]error{"JSON": r.shopping()(limited(t)), "gRPC": r.creating()(limited(t))} {
		if reasonFor(err) != "BACKEND_UNREACHABLE" {
			t.Fatalf("%s: %v", name, err)
		}
		for _, part := range []string{"shop", shop.Addr, "check"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", name, err, part)
			}
		}
	}
}

// A backend that stands still costs its callers their deadline, or the route's
// limit, and no more; those of other backends do not feel it.
func TestPausedBackend(t *testing.T) {
	t.Parallel()
	paused := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
	r, _ := newEchoRig(t, "", strings.TrimPrefix(shopConfig("timeout: 400ms\nbreaker: {kind: off}", paused.Addr), "backends:\n"))
	must(t, r.shopping())
	must(t, r.creating())
	others := startLoad(t, 2, r.echoing())

	paused.Pause()
	for name, call := range map[string]callFunc{"JSON": r.shopping(), "gRPC": r.creating()} {
		began := time.Now()
		ends(t, call, "DEADLINE_EXCEEDED")
		if took := time.Since(began); took < 350*time.Millisecond || took > 400*time.Millisecond+slack {
			t.Errorf("%s: the limit of 400ms was noticed after %v", name, took)
		}
	}
	began := time.Now()
	a := r.call(t, "POST", "/v1/users", `{"name": "Ada"}`, "Grpc-Timeout", "100m")
	a.failed(t, http.StatusGatewayTimeout, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
	if took := time.Since(began); took > 100*time.Millisecond+slack {
		t.Errorf("a deadline of 100ms was noticed after %v", took)
	}
	others.awaitMore(50)
	paused.Resume()
	comesTo(t, r.shopping(), "OK")
	comesTo(t, r.creating(), "OK")
	others.stop()
	others.only()
	if others.slowest > slack {
		t.Errorf("a call to another backend took %v", others.slowest)
	}
}

// One of two replicas dies: only what was in flight there may be lost.
func TestOneOfTwoReplicasKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for policy, spreads := range map[string]bool{
		"p2c_ewma": true, "round_robin": true, "least_request": true, "ring_hash": false, "pick_first": false,
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			one := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
			two := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
			r := newRig(t, shopConfig("balancer: {policy: "+policy+"}", one.Addr, two.Addr))
			callers := startLoad(t, 2, r.shopping(), r.creating())
			for _, victim := range []*gatewaytest.Shop{one, two} {
				before := sum(callers.reasons())
				victim.Kill()
				killed := time.Now()
				last := callers.steady(500 * time.Millisecond)
				if took := last.Sub(killed); took > time.Second {
					t.Errorf("calls failed for %v", took)
				}
				if n := sum(callers.reasons()) - before; n > 8 { // four callers, and as many that met the connection's end
					t.Errorf("%d calls failed: %v", n, callers.reasons())
				}
				gatewaytest.StartShop(t, victim.Addr)
				callers.awaitMore(50)
				if !spreads {
					break // one of them has all calls, or none
				}
				reached(t, victim.Addr, callers)
			}
			callers.stop()
			callers.only("BACKEND_UNREACHABLE")
		})
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// reached waits until the load goes on and a shop at an address answers, by
// itself, so that killing the other one next leaves something to call.
func reached(t *testing.T, addr string, callers *load) {
	t.Helper()
	users := shoppb.NewUserServiceClient(dial(t, addr))
	gatewaytest.Eventually(t, func() error {
		// Users are numbered per instance: the first is there once somebody
		// made one.
		_, err := users.GetUser(limited(t), &shoppb.GetUserRequest{Id: 1})
		if status.Code(err) == codes.NotFound {
			return errors.New("nobody was sent there yet")
		}
		return err
	})
	callers.awaitMore(20)
}

// A backend that stops in order loses no call, though nobody told the gateway
// beforehand.
func TestBackendStoppedInOrderUnderLoad(t *testing.T) {
	t.Parallel()
	one := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
	two := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
	r := newRig(t, shopConfig("", one.Addr, two.Addr))
	callers := startLoad(t, 2, r.shopping(), r.creating())
	for _, shop := range []*gatewaytest.Shop{one, two} {
		shop.Signal(syscall.SIGTERM)
		if exit := shop.ExitCode(); exit != 0 {
			t.Fatalf("the shop exited with %d", exit)
		}
		callers.awaitMore(50)
		gatewaytest.StartShop(t, shop.Addr)
		reached(t, shop.Addr, callers)
	}
	callers.stop()
	callers.only()
}

// The caller's metadata does not survive in what the gateway says of a dead
// backend, nor do secrets in its log.
func TestOutageKeepsSecretsOutOfTheLog(t *testing.T) {
	t.Parallel()
	shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
	r := newRig(t, strings.Replace(shopConfig("", shop.Addr), quiet, "", 1))
	must(t, r.shopping())
	shop.Kill()
	comesTo(t, r.shopping(), "BACKEND_UNREACHABLE")
	ctx := metadata.AppendToOutgoingContext(limited(t), "x-secret", "sesame")
	err := r.creating()(ctx)
	r.redis.Kill()
	_ = r.shopping()(limited(t))
	r.WaitLog("revocations cannot be heard")
	for _, secret := range []string{r.token, strings.Split(r.token, "_")[2], "sesame"} {
		if strings.Contains(r.Output(), secret) || strings.Contains(err.Error(), secret) {
			t.Error("a secret got out")
		}
	}
}
