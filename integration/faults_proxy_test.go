package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/faultproxy"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/ledger"
	"github.com/rpcgate/rpcgate/integration/ledger/ledgerpb"
	"github.com/rpcgate/rpcgate/integration/netns"
)

// Faults of the network between a gateway and its endpoints, by a proxy: these
// need no rights. Those of packets are in faults_packets_test.go.

// behindProxies starts backends with a proxy before each of them, and a gateway
// that knows the proxies.
func behindProxies(t *testing.T, n int, settings string, args ...string) (*ledgerRig, []*faultproxy.Proxy) {
	t.Helper()
	backends := startLedgers(t, n, args...)
	var proxies []*faultproxy.Proxy
	var addrs []string
	for _, b := range backends {
		p := faultproxy.Start(t, gatewaytest.FreeAddress(t), b.Addr) // a port of outgoing connections may be taken while it is dropped
		proxies, addrs = append(proxies, p), append(addrs, p.Addr)
	}
	return beforeLedgers(t, backends, settings, addrs...), proxies
}

// Latency and jitter at one endpoint of three: p2c_ewma moves away from it, so
// that fewer than a tenth of the calls go there, and nine of ten do not feel it. It keeps a flow of probes, by which the endpoint
// comes back when it is well.
func TestEndpointWithLatency(t *testing.T) {
	t.Parallel()
	r, proxies := behindProxies(t, 3, swift)
	callers := startLoad(t, 8, r.looking())
	awaitCalled(t, r.backends[0], 50)
	proxies[0].Delay(150*time.Millisecond, 50*time.Millisecond)
	callers.awaitMore(300) // it takes some calls to notice
	r.since()
	callers.awaitMore(1000)
	times, shares := r.since()
	if shares["e0"] > 0.1 {
		t.Errorf("%.1f %% of the calls went to the slow endpoint", 100*shares["e0"])
	}
	if p90 := percentile(times, 0.9); p90 > 150*time.Millisecond {
		t.Errorf("a tenth of the calls took %v or more", p90)
	}
	proxies[0].Restore()
	gatewaytest.Eventually(t, func() error {
		r.since()
		callers.awaitMore(300)
		if _, shares := r.since(); shares["e0"] < 0.15 {
			return fmt.Errorf("the endpoint that is well again has %.1f %% of the calls", 100*shares["e0"])
		}
		return nil
	})
	callers.stop()
	callers.only()
}

// Connections to one endpoint of three are closed, refused, or reset as soon as
// anything is said: no call that may be repeated is lost, none that may not is
// executed twice, and the endpoint comes back.
func TestConnectionsDroppedAndReset(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ begin, end func(*faultproxy.Proxy) }{
		"dropped and refused": {(*faultproxy.Proxy).Drop, (*faultproxy.Proxy).Accept},
		"reset":               {(*faultproxy.Proxy).Reset, (*faultproxy.Proxy).Restore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, proxies := behindProxies(t, 3, lively, "--work", "5ms")
			repeatable := startLoad(t, 4, r.looking(), r.lookingJSON())
			others := startLoad(t, 4, r.booking())
			for range 3 {
				fault.begin(proxies[0])
				repeatable.awaitMore(200)
				fault.end(proxies[0])
				awaitCalled(t, r.backends[0], 20)
			}
			repeatable.stop()
			others.stop()
			onlyFailed(t, repeatable, others, 12) // four callers, three times
			r.executedOnce(t)
		})
	}
}

// What is said to one endpoint of three vanishes, while its connections stay
// open: no call that may be repeated is lost, as an attempt's time runs out.
func TestEndpointFallsSilent(t *testing.T) {
	t.Parallel()
	r, proxies := behindProxies(t, 3, swift)
	callers := startLoad(t, 8, r.looking())
	awaitCalled(t, r.backends[0], 20)
	r.since()
	proxies[0].Silence()
	stays(t, 3*time.Second, callers.unharmed)
	proxies[0].Restore()
	awaitCalled(t, r.backends[0], 20)
	callers.stop()
	callers.only()
	fewWaited(t, r)
}

// pinging has keepalive as short as grpc-go's clients have it.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = time.Second
	pinging          = "timeout: 60s\nretry: {max_attempts: 1}\nconn: {keepalive_time: 10s, keepalive_timeout: 1s}"
)

// A connection that is half open is found by keepalive: the call that waits on it
// ends after keepalive_time and keepalive_timeout, long before its own limit, and
// the next one has a new connection. By a proxy that swallows what is said, and,
// with the rights for it, by packets that vanish; both at once, as it takes a
// while.
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	r, proxies := behindProxies(t, 1, pinging, "--work", "40s")
	ways := map[string]*halfOpen{"a proxy": openHalf(t, r, proxies[0].Silence, proxies[0].Restore)}
	if netns.Allowed() {
		r, network := inNetwork(t, 1, pinging, "--work", "40s")
		ways["packets"] = openHalf(t, r, network.Silence, network.Restore)
	} else {
		t.Log("without root: no test of packets")
	}
	for name, way := range ways {
		err := waitFor(t, way.ended, "the call's end")
		if took := way.took; took > keepaliveTime+keepaliveTimeout+slack {
			t.Errorf("%s: the half-open connection was found after %v", name, took)
		}
		if reasonFor(err) != "BACKEND_UNREACHABLE" {
			t.Errorf("%s: the call ended with %v", name, err)
		}
		way.restore()
		follows(t, way.rig, way.rig.backends[0])
	}
}

// halfOpen is a call that is under way on a connection that has fallen silent.
type halfOpen struct {
	rig     *ledgerRig
	restore func()
	took    time.Duration // once it has ended
	ended   chan error
}

func openHalf(t *testing.T, r *ledgerRig, silence, restore func()) *halfOpen {
	t.Helper()
	h := &halfOpen{rig: r, restore: restore, ended: make(chan error, 1)}
	ctx := limited(t)
	silent := make(chan time.Time, 1)
	go func() {
		err := r.looking()(ctx)
		h.took = time.Since(<-silent)
		h.ended <- err
	}()
	gatewaytest.Eventually(t, func() error {
		if len(r.backends[0].Journal()) == 0 {
			return errors.New("the call has not come")
		}
		return nil
	})
	silence()
	silent <- time.Now()
	return h
}

// follows waits until a call reaches a backend again; these take longer than
// anybody waits for their answers.
func follows(t *testing.T, r *ledgerRig, b *ledger.Backend) {
	t.Helper()
	before := len(b.Journal())
	gatewaytest.Eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := r.ledger.Look(r.as(ctx), &ledgerpb.Request{Tag: r.tag("look")})
		if len(b.Journal()) == before {
			return fmt.Errorf("no call came; the last ended with %w", err)
		}
		return nil
	})
}
