package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/etcdtest"
	"github.com/rpcgate/rpcgate/integration/faultproxy"
)

// The tests in this file run against real etcds that change a lot, are cut off,
// or lose a member.

// churn has n endpoints that are there come and go at once: those of an even
// number leave, as many others come.
func churn(ctx context.Context, t *testing.T, cli *clientv3.Client, n int) {
	t.Helper()
	const workers = 16
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < n; i += workers {
				_, err := cli.Put(ctx, entryOf(n+i), addressOf(n+i))
				if err == nil && i%2 == 0 {
					_, err = cli.Delete(ctx, entryOf(i))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func entryOf(i int) string { return fmt.Sprintf("shop.rpc/%05d", i) }

func addressOf(i int) string { return fmt.Sprintf("10.0.%d.%d:80", i/256, i%256) }

// listed is what etcd holds, as a ClientConn is told it.
func listed(ctx context.Context, t *testing.T, api etcdAPI) string {
	t.Helper()
	found, err := api.Get(ctx, "shop.rpc/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	m := newMembers(layoutAuto, 0, slog.New(slog.DiscardHandler))
	for _, r := range found.Kvs {
		m.put(kv{key: string(r.Key), value: string(r.Value), revision: r.ModRevision})
	}
	var all []string
	for _, e := range m.current() {
		all = append(all, e.address)
	}
	return strings.Join(all, " ")
}

func TestRealThousandEndpointsComeAndGo(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	cli := dial(t, etcdtest.Start(t), nil)
	cc, _ := realResolver(t, cli)
	const n = 1000
	lease, err := cli.Grant(ctx, 600)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := w; i < n; i += 16 {
				if _, err := cli.Put(ctx, entryOf(i), addressOf(i), clientv3.WithLease(lease.ID)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	eventuallyTold(t, cc, listed(ctx, t, cli))

	churn(ctx, t, cli, n)
	want := listed(ctx, t, cli)
	if got := strings.Count(want, ":"); got != n+n/2 {
		t.Fatalf("etcd has %d endpoints", got)
	}
	eventuallyTold(t, cc, want)

	// 500 leave in one go: their lease is gone.
	if _, err := cli.Revoke(ctx, lease.ID); err != nil {
		t.Fatal(err)
	}
	want = listed(ctx, t, cli)
	if got := strings.Count(want, ":"); got != n {
		t.Fatalf("etcd has %d endpoints", got)
	}
	eventuallyTold(t, cc, want)
	if cc.emptied() != 0 {
		t.Error("an empty list was told")
	}
}

// A thousand that register, and leave, by the book: with a lease each, kept
// alive.
func TestRealRegistrationsComeAndGo(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	cli := dial(t, etcdtest.Start(t), nil)
	cc, _ := realResolver(t, cli)
	const n = 1000
	var stops []func() error
	for i := range n {
		stops = append(stops, register(t, cli, RegisterOptions{Address: addressOf(i)}))
	}
	eventually(t, "all are there", func() bool { return strings.Count(cc.last(), ":80") == n })
	var leaving sync.WaitGroup
	for _, stop := range stops[1:] {
		leaving.Go(func() {
			if err := stop(); err != nil {
				t.Errorf("deregistering: %v", err)
			}
		})
	}
	leaving.Wait()
	eventuallyTold(t, cc, addressOf(0))
	if got := listed(ctx, t, cli); got != addressOf(0) {
		t.Errorf("etcd still has %q", got)
	}
}

// The way to etcd is cut: nothing comes through, and nothing tells. Meanwhile
// endpoints leave and come, and etcd forgets how. Afterwards all is as etcd has
// it, and no endpoint stays that has gone.
func TestRealPartitionAndCompaction(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ cut, end func(*faultproxy.Proxy) }{
		"packets vanish":    {(*faultproxy.Proxy).Silence, (*faultproxy.Proxy).Restore},
		"connections reset": {(*faultproxy.Proxy).Reset, (*faultproxy.Proxy).Restore},
		"nobody listens":    {(*faultproxy.Proxy).Drop, (*faultproxy.Proxy).Accept},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := realContext(t)
			server := etcdtest.Start(t)
			direct := dial(t, server, nil)
			proxy := faultproxy.Start(t, "127.0.0.1:0", server.Endpoint)
			cli := dial(t, server, func(cfg *config.Etcd) { cfg.Endpoints = []string{proxy.Addr} })
			for i := range 20 {
				if _, err := direct.Put(ctx, entryOf(i), addressOf(i)); err != nil {
					t.Fatal(err)
				}
			}
			before := listed(ctx, t, direct)
			cc, _ := realResolver(t, cli)
			eventuallyTold(t, cc, before)

			fault.cut(proxy)
			churn(ctx, t, direct, 20)
			last, err := direct.Put(ctx, "other", "x")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := direct.Compact(ctx, last.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
			// A newcomer is told that etcd cannot be asked; the others keep what they have.
			late, _ := realResolver(t, cli)
			eventually(t, "the partition is noticed", func() bool { return strings.HasPrefix(late.last(), "error: looking for endpoints") })
			if got := cc.last(); got != before {
				t.Errorf("while etcd is cut off: %q", got)
			}

			fault.end(proxy)
			want := listed(ctx, t, direct)
			eventuallyTold(t, cc, want)
			eventuallyTold(t, late, want)
			if _, err := direct.Put(ctx, entryOf(99), addressOf(99)); err != nil {
				t.Fatal(err)
			}
			eventuallyTold(t, cc, listed(ctx, t, direct))
			if cc.emptied() != 0 {
				t.Error("an empty list was told")
			}
		})
	}
}

// Three members lose their leader by kill -9: endpoints and registrations stay,
// and what is new is seen within seconds.
func TestRealClusterLosesItsLeader(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	cluster := etcdtest.StartCluster(t, 3)
	cli := dial(t, cluster.Members[0], func(cfg *config.Etcd) { cfg.Endpoints = cluster.Endpoints() })
	cc, _ := realResolver(t, cli)
	register(t, cli, RegisterOptions{Address: "10.0.0.1:80"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	register(t, cli, RegisterOptions{Address: "10.0.0.2:80"})
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")
	want := "10.0.0.1:80 10.0.0.2:80"
	for round := range 2 {
		var leader *etcdtest.Server
		eventually(t, "there is a leader", func() bool { leader = cluster.Leader(); return leader != nil })
		leader.Kill()
		began := time.Now()
		address := fmt.Sprintf("10.0.0.%d:80", 3+round)
		register(t, cli, RegisterOptions{Address: address})
		want += " " + address
		eventuallyTold(t, cc, want)
		t.Logf("a change is seen %v after the leader was killed", time.Since(began))
		leader.Restart()
	}
	if _, err := cli.Get(ctx, "shop.rpc/"); err != nil {
		t.Error(err)
	}
	if cc.emptied() != 0 {
		t.Error("an empty list was told")
	}
}
