package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/clockstep"
	"github.com/rpcgate/rpcgate/integration/etcdtest"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/ledger"
)

// The wall clocks of a gateway and of a backend jump by a day, forth and back,
// under load. No call is lost and none is slow; limits in time last as long as
// before; the backend stays registered.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	addr := gatewaytest.FreeAddress(t)
	b := ledger.Start(t, ledger.Options{Name: "e0", Addr: addr, Args: []string{"--etcd", etcd.Endpoint, "--advertise", addr}})
	cli := etcd.Client()
	awaitRegistered(t, cli, "ledger.rpc", 1)
	config := fmt.Sprintf("etcd: {endpoints: [%q]}\n", etcd.Endpoint) + ledgerConfig("timeout: 2s", "etcd: {key: ledger.rpc}")
	// The cache's times are short, so that they come to pass.
	r := newLedgerRig(t, []*ledger.Backend{b}, config+"auth: {cache: {ttl: 300ms}}\n")
	gatewayClock, backendClock := clockstep.Of(t, r.Process), clockstep.Of(t, b.Process)
	callers := startLoad(t, 4, r.looking(), r.lookingJSON(), r.booking())
	r.since()
	for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour, 0} {
		gatewayClock.Set(jump)
		awaitLogged(t, r, jump)
		callers.awaitMore(200)
		backendClock.Set(jump)
		callers.awaitMore(200)
		if jump != 0 {
			backendClock.Set(0)
		}
		awaitRegistered(t, cli, "ledger.rpc", 1)
	}
	callers.stop()
	callers.only()
	if times, _ := r.since(); percentile(times, 1) > slack {
		t.Errorf("a call took %v", percentile(times, 1))
	}

	// A limit is no shorter and no longer because the clock jumped in it.
	b.Pause()
	defer b.Resume()
	for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		ended := make(chan error, 1)
		ctx := limited(t)
		began := time.Now()
		go func() { ended <- r.looking()(ctx) }()
		stays(t, 300*time.Millisecond, func() error {
			if len(ended) > 0 {
				return errors.New("the call has ended")
			}
			return nil
		})
		gatewayClock.Set(jump)
		err := waitFor(t, ended, "the call's end")
		if took := time.Since(began); status.Code(err) != codes.DeadlineExceeded || took < 1900*time.Millisecond || took > 2*time.Second+slack {
			t.Errorf("a call with 2s ended after %v with %v", took, err)
		}
	}
}

// awaitLogged waits until the gateway itself writes times that are off by the
// jump: the clock has been set.
func awaitLogged(t *testing.T, r *ledgerRig, jump time.Duration) {
	t.Helper()
	gatewaytest.Eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = r.posting(r.http1, "nobody", "wrong", "/v1/entries", "{}")(ctx) // is logged
		lines := strings.Split(strings.TrimSpace(r.Output()), "\n")
		var line struct{ Time time.Time }
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil {
			return err
		}
		if off := time.Until(line.Time) - jump; off.Abs() > time.Minute {
			return fmt.Errorf("the gateway's clock is off by %v, want %v", time.Until(line.Time), jump)
		}
		return nil
	})
}
