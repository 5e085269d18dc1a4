package integration_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/etcdtest"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// etcdConfig is a gateway whose backends are found in etcd. Each of backends is
// a name; its instances register under <name>.rpc.
func etcdConfig(etcd *etcdtest.Server, backends ...string) string {
	text := fmt.Sprintf("etcd: {endpoints: [%q]}\n%sbackends:\n", etcd.Endpoint, quiet)
	for _, name := range backends {
		text += fmt.Sprintf("  - name: %s\n    etcd: {key: %s.rpc}\n    reflection: true\n", name, name)
	}
	return text
}

// registered returns the values under a key of etcd.
func registered(cli *clientv3.Client, key string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	got, err := cli.Get(ctx, key+"/", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	var values []string
	for _, kv := range got.Kvs {
		values = append(values, string(kv.Value))
	}
	return values, nil
}

func awaitRegistered(t *testing.T, cli *clientv3.Client, key string, n int) {
	t.Helper()
	gatewaytest.Eventually(t, func() error {
		values, err := registered(cli, key)
		if err == nil && len(values) != n {
			err = fmt.Errorf("%q are registered under %s, want %d", values, key, n)
		}
		return err
	})
}

func startRegisteredShop(t *testing.T, etcd *etcdtest.Server) *gatewaytest.Shop {
	t.Helper()
	return gatewaytest.StartShop(t, gatewaytest.FreeAddress(t), "--etcd", etcd.Endpoint)
}

// countedBackend is an echo backend that counts its calls, entered in etcd by
// hand.
type countedBackend struct {
	*testbackend.Server
	calls atomic.Int64
}

func startCounted(t *testing.T) *countedBackend {
	t.Helper()
	c := &countedBackend{Server: testbackend.Start(t)}
	c.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		c.calls.Add(1)
		msg, err := s.Recv()
		if err != nil {
			return err
		}
		return s.Send(msg)
	})
	return c
}

// awaitCalls waits for n further calls.
func (c *countedBackend) awaitCalls(t *testing.T, n int64) {
	t.Helper()
	want := c.calls.Load() + n
	gatewaytest.Eventually(t, func() error {
		if got := c.calls.Load(); got < want {
			return fmt.Errorf("%d calls short", want-got)
		}
		return nil
	})
}

func put(t *testing.T, cli *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := cli.Put(limited(t), key, value); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, cli *clientv3.Client, key string) {
	t.Helper()
	if _, err := cli.Delete(limited(t), key); err != nil {
		t.Fatal(err)
	}
}

// Whatever becomes of etcd, calls go on to the endpoints that are known, and not
// one of them fails. Afterwards all is as before without anybody's doing: what
// was registered is again, and what is new is found.
func TestFault10EtcdAwayUnderLoad(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(*etcdtest.Server, func()){
		"killed":            func(s *etcdtest.Server, meanwhile func()) { s.Kill(); meanwhile(); s.Restart() },
		"paused":            func(s *etcdtest.Server, meanwhile func()) { s.Pause(); meanwhile(); s.Resume() },
		"restarted empty":   func(s *etcdtest.Server, meanwhile func()) { s.Kill(); meanwhile(); s.RestartEmpty() },
		"restarted at once": func(s *etcdtest.Server, _ func()) { s.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.Start(t)
			startRegisteredShop(t, etcd)
			awaitRegistered(t, etcd.Client(), "shop.rpc", 1)
			r := newRig(t, etcdConfig(etcd, "shop"))
			callers := startLoad(t, 2, r.shopping(), r.creating())
			outage(etcd, func() {
				callers.awaitMore(200)
				// A connection that is made now finds its endpoints, too.
				token := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "newcomer"}).Secret
				must(t, r.posting(r.http1, "newcomer", token, "/v1/users", `{"name": "Bob"}`))
			})
			cli := etcd.Client()
			awaitRegistered(t, cli, "shop.rpc", 1)
			fresh := startRegisteredShop(t, etcd)
			awaitRegistered(t, cli, "shop.rpc", 2)
			reached(t, fresh.Addr, callers)
			callers.stop()
			callers.only()
		})
	}
}

// A key that is deleted and put again, one after the other or in one go, leaves
// no moment without addresses.
func TestFault10ReaddedKeyLosesNoCall(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	cli := etcd.Client()
	b := startCounted(t)
	put(t, cli, "echo.rpc/1", b.Addr)
	r := newRig(t, etcdConfig(etcd, "echo"))
	callers := startLoad(t, 2, r.echoing(), r.invoking(r.conn))
	for i := range 10 {
		remove(t, cli, "echo.rpc/1")
		callers.awaitMore(20)
		put(t, cli, "echo.rpc/1", b.Addr)
		callers.awaitMore(5)
		// The new instance of a restarted server: another lease, one address.
		put(t, cli, fmt.Sprintf("echo.rpc/%d", 100+i), b.Addr)
		remove(t, cli, "echo.rpc/1")
		callers.awaitMore(5)
		put(t, cli, "echo.rpc/1", b.Addr)
		remove(t, cli, fmt.Sprintf("echo.rpc/%d", 100+i))
	}
	callers.stop()
	callers.only()
}

// Replicas that come are used, replicas that were taken out are not called any
// more, and no call fails on the way.
func TestReplicasComeAndGoUnderLoad(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	cli := etcd.Client()
	one, two := startCounted(t), startCounted(t)
	put(t, cli, "echo.rpc/1", one.Addr)
	r := newRig(t, etcdConfig(etcd, "echo"))
	callers := startLoad(t, 2, r.echoing(), r.invoking(r.conn))
	for range 3 {
		put(t, cli, "echo.rpc/2", two.Addr)
		two.awaitCalls(t, 20)
		one.awaitCalls(t, 20)
		remove(t, cli, "echo.rpc/2")
		// What was on its way gets there; then there is nothing more.
		gatewaytest.Eventually(t, func() error {
			before := two.calls.Load()
			callers.awaitMore(50)
			if n := two.calls.Load() - before; n > 0 {
				return fmt.Errorf("%d calls still reached the replica", n)
			}
			return nil
		})
	}
	callers.stop()
	callers.only()
}

// The replicas of a service are replaced one by one, as a deployment does it.
func TestRollingRestartOfShopsLosesNoCall(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	cli := etcd.Client()
	shops := []*gatewaytest.Shop{startRegisteredShop(t, etcd), startRegisteredShop(t, etcd)}
	awaitRegistered(t, cli, "shop.rpc", 2)
	r := newRig(t, etcdConfig(etcd, "shop"))
	callers := startLoad(t, 2, r.shopping(), r.creating())
	for range 2 {
		for i, old := range shops {
			shops[i] = startRegisteredShop(t, etcd)
			awaitRegistered(t, cli, "shop.rpc", 3)
			reached(t, shops[i].Addr, callers)
			old.Signal(syscall.SIGTERM)
			if exit := old.ExitCode(); exit != 0 {
				t.Fatalf("the shop exited with %d", exit)
			}
			awaitRegistered(t, cli, "shop.rpc", 2)
		}
	}
	callers.stop()
	callers.only()
}

// etcd and one backend in it are not there when the gateway starts. It serves
// what it can, and the rest once it is there.
func TestEtcdDownAtStart(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	etcd.Kill()
	b := testbackend.Start(t)
	config := etcdConfig(etcd, "shop") + strings.TrimPrefix(echoConfig(b, ""), "backends:\n")
	r := newRig(t, config)
	must(t, r.echoing())
	ends(t, r.shopping(), "ROUTES_PENDING")
	etcd.Restart()
	startRegisteredShop(t, etcd)
	comesTo(t, r.shopping(), "OK")
	comesTo(t, r.creating(), "OK")
}

// The gateway itself can be found in etcd, for as long as it takes calls.
func TestGatewayRegistersInEtcd(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	cli := etcd.Client()
	b := testbackend.Start(t)
	r := newRig(t, echoConfig(b, "")+fmt.Sprintf("etcd: {endpoints: [%q]}\nregister: {key: rpcgate.rpc, ttl: 2s}\n", etcd.Endpoint))
	awaitRegistered(t, cli, "rpcgate.rpc", 1)
	values, err := registered(cli, "rpcgate.rpc")
	if err != nil || len(values) != 1 || values[0] != r.GRPC {
		t.Fatalf("%q, %v are registered, want the gRPC listener %s", values, err, r.GRPC)
	}
	etcd.RestartEmpty()
	awaitRegistered(t, etcd.Client(), "rpcgate.rpc", 1)
	if exit := r.Stop(); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
	values, err = registered(etcd.Client(), "rpcgate.rpc")
	if err != nil || len(values) != 0 {
		t.Errorf("after the stop %q, %v are registered", values, err)
	}
}
