package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rpcgate/rpcgate/integration/etcdtest"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/ledger"
)

// etcd's disk is full: it takes no writes (NOSPACE). Endpoints that are
// registered stay, calls go on and none is lost, a gateway that starts finds its
// endpoints; a server that registers tries until there is room again.
func TestEtcdDiskFull(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, "--quota-backend-bytes", "4194304") // 4 MiB
	cli := etcd.Client()
	backend := func(name string) *ledger.Backend {
		addr := gatewaytest.FreeAddress(t)
		return ledger.Start(t, ledger.Options{Name: name, Addr: addr, Args: []string{"--etcd", etcd.Endpoint, "--advertise", addr, "--ttl", "2s"}})
	}
	one := backend("e0")
	awaitRegistered(t, cli, "ledger.rpc", 1)
	config := fmt.Sprintf("etcd: {endpoints: [%q]}\n", etcd.Endpoint) + ledgerConfig("", "etcd: {key: ledger.rpc}")
	r := newLedgerRig(t, []*ledger.Backend{one}, config)
	callers := startLoad(t, 4, r.looking(), r.booking())

	fill(t, cli)
	two := backend("e1")
	gatewaytest.Eventually(t, func() error {
		if !strings.Contains(two.Output(), "not registered in etcd; trying again") {
			return errors.New("the second backend has not tried to register")
		}
		return nil
	})
	callers.awaitMore(200)
	other := r.beside(t, config) // which starts with etcd as it is
	must(t, other.posting(other.http1, other.app, other.token, "/v1/entries", `{"tag": "other"}`))
	// For longer than an entry outlives its server: leases are kept alive.
	stays(t, 4*time.Second, callers.unharmed)
	awaitRegistered(t, cli, "ledger.rpc", 1)

	makeRoom(t, cli, etcd.Endpoint)
	awaitRegistered(t, cli, "ledger.rpc", 2)
	awaitCalled(t, two, 20)
	callers.stop()
	callers.only()
}

// fill writes until etcd says that it is full.
func fill(t *testing.T, cli *clientv3.Client) {
	t.Helper()
	ctx := limited(t)
	for i := range 100 {
		_, err := cli.Put(ctx, fmt.Sprint("filling/", i), strings.Repeat("x", 256<<10))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("etcd did not get full")
}

// makeRoom does what an operator does: deletes, compacts, defragments, and calls
// off the alarm.
func makeRoom(t *testing.T, cli *clientv3.Client, endpoint string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Limit)
	defer cancel()
	got, err := cli.Delete(ctx, "filling/", clientv3.WithPrefix())
	if err == nil {
		_, err = cli.Compact(ctx, got.Header.GetRevision(), clientv3.WithCompactPhysical())
	}
	if err == nil {
		_, err = cli.Defragment(ctx, endpoint)
	}
	if err == nil {
		_, err = cli.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	}
	if err != nil {
		t.Fatal(err)
	}
}
