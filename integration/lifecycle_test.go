package integration_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/etcdtest"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// endsWell stops a gateway and checks that it does so in order, and in time.
func endsWell(t *testing.T, r *rig, by syscall.Signal, limit time.Duration) {
	t.Helper()
	began := time.Now()
	r.Signal(by)
	if exit := r.ExitCode(); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
	if took := time.Since(began); took > limit+slack {
		t.Errorf("the stop took %v, more than %v", took, limit)
	}
	if strings.Contains(r.Output(), "panic") {
		t.Error("there was a panic")
	}
}

func TestStopBySignal(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := newEchoRig(t, "", "")
			must(t, r.echoing())
			must(t, r.invoking(r.conn))
			endsWell(t, r, signal, slack)
		})
	}
}

// What the gateway leans on being away keeps it from stopping no longer than a
// call may take.
func TestStopDuringOutages(t *testing.T) {
	t.Parallel()
	t.Run("Redis paused with callers waiting", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{})
		b := testbackend.Start(t)
		r := startRig(t, server, "", echoConfig(b, ""))
		server.Pause()
		told := make(chan error, 1)
		go func() { told <- r.echoing()(t.Context()) }()
		r.awaitMetric(t, 1, "rpcgate_calls_in_flight")
		endsWell(t, r, syscall.SIGTERM, 3*time.Second)
		if got := reasonFor(<-told); got != "AUTH_UNAVAILABLE" {
			t.Errorf("the caller was told: %s", got)
		}
	})
	t.Run("backend paused with callers waiting", func(t *testing.T) {
		t.Parallel()
		shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
		r := newRig(t, shopConfig("timeout: 4s", shop.Addr))
		must(t, r.shopping())
		shop.Pause()
		told := make(chan error, 2)
		go func() { told <- r.shopping()(t.Context()) }()
		go func() { told <- r.creating()(t.Context()) }()
		r.awaitMetric(t, 2, "rpcgate_calls_in_flight")
		endsWell(t, r, syscall.SIGTERM, 5*time.Second)
		for range 2 {
			if got := reasonFor(<-told); got != "DEADLINE_EXCEEDED" {
				t.Errorf("a caller was told: %s", got)
			}
		}
	})
	t.Run("etcd killed while registered", func(t *testing.T) {
		t.Parallel()
		etcd := etcdtest.Start(t)
		b := testbackend.Start(t)
		r := newRig(t, echoConfig(b, "")+fmt.Sprintf("etcd: {endpoints: [%q]}\nregister: {key: rpcgate.rpc}\n", etcd.Endpoint))
		awaitRegistered(t, etcd.Client(), "rpcgate.rpc", 1)
		etcd.Kill()
		must(t, r.echoing())
		endsWell(t, r, syscall.SIGTERM, 5*time.Second)
	})
	t.Run("etcd never there", func(t *testing.T) {
		t.Parallel()
		b := testbackend.Start(t)
		r := newRig(t, echoConfig(b, "")+fmt.Sprintf("etcd: {endpoints: [%q]}\nregister: {key: rpcgate.rpc}\n", gatewaytest.FreeAddress(t)))
		must(t, r.echoing())
		endsWell(t, r, syscall.SIGTERM, 5*time.Second)
	})
}

// A gateway that still waits for its backends can be stopped, too.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
	shop.Pause()
	http := gatewaytest.FreeAddress(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	config := shopConfig("auth: none", shop.Addr) +
		fmt.Sprintf("http: {address: %q}\ngrpc: {address: off}\nadmin: {address: off}\n", http)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &rig{Gateway: &gatewaytest.Gateway{Process: gatewaytest.Command(t, "serve", "-c", file)}}
	// It has opened its port, and is not serving.
	if err := r.AwaitReady(func() error { return knock(t, http) }); err != nil {
		t.Fatal(err)
	}
	endsWell(t, r, syscall.SIGTERM, 2*time.Second)
}

// knock tells whether somebody listens at an address.
func knock(t testing.TB, addr string) error {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}
