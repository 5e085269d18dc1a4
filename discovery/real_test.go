package discovery

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/naming/endpoints"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/etcdtest"
)

// The tests in this file run against a real etcd.

// quickTimings make the faults show sooner.
func quickTimings() timings {
	return timings{
		grace: 8 * time.Second, probe: 500 * time.Millisecond, minProbe: 100 * time.Millisecond,
		listTimeout: time.Second, recall: 50 * time.Millisecond,
		minBackoff: 20 * time.Millisecond, maxBackoff: 500 * time.Millisecond,
	}
}

// quickTTL is the shortest that leaves three keepalives.
const quickTTL = 3 * time.Second

func realContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !reached() {
		select {
		case <-poll.C:
		case <-limit.C:
			t.Fatalf("not reached in time: %s", what)
		}
	}
}

func eventuallyTold(t *testing.T, cc *fakeConn, want string) {
	t.Helper()
	eventually(t, "the ClientConn is told "+want, func() bool { return cc.last() == want })
}

func dial(t *testing.T, server *etcdtest.Server, with func(*config.Etcd)) *clientv3.Client {
	t.Helper()
	cfg := config.Etcd{Endpoints: []string{server.Endpoint}, DialTimeout: 2 * time.Second}
	if with != nil {
		with(&cfg)
	}
	cli, err := Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	return cli
}

func realResolver(t *testing.T, api etcdAPI) (*fakeConn, resolver.Resolver) {
	t.Helper()
	e := newEtcd(api, slog.New(slog.DiscardHandler), quickTimings())
	cc, r := resolve(t, e.Builder(), shopTarget)
	t.Cleanup(func() { r.Close(); e.Close() })
	return cc, r
}

// register runs a registration; stop ends it, and returns what Run returned.
func register(t *testing.T, cli *clientv3.Client, o RegisterOptions) (stop func() error) {
	t.Helper()
	o.Key, o.TTL = "shop.rpc", quickTTL
	r, err := NewRegistration(cli, o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ran })
	t.Cleanup(func() { _ = stop() })
	return stop
}

func TestRealLayouts(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	server := etcdtest.Start(t)
	cli := dial(t, server, nil)
	cc, _ := realResolver(t, cli)
	eventually(t, "the empty list is reported", func() bool { return strings.HasPrefix(cc.last(), "error: no endpoints") })

	stop := register(t, cli, RegisterOptions{Address: "10.0.0.1:80"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	found, err := cli.Get(ctx, "shop.rpc/", clientv3.WithPrefix())
	if err != nil || len(found.Kvs) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	if got, want := string(found.Kvs[0].Key), "shop.rpc/"+strconv.FormatInt(found.Kvs[0].Lease, 10); got != want {
		t.Errorf("registered as %q, want %q", got, want)
	}

	if _, err := cli.Put(ctx, "shop.rpc2/1", "10.9.9.9:80"); err != nil {
		t.Fatal(err)
	}
	manager, err := endpoints.NewManager(cli, "shop.rpc")
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.AddEndpoint(ctx, "shop.rpc/x", endpoints.Endpoint{Addr: "10.0.0.2:80", Metadata: map[string]string{"zone": "a"}}); err != nil {
		t.Fatal(err)
	}
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")

	// What we register with metadata, etcd's own package reads.
	register(t, cli, RegisterOptions{Address: "10.0.0.3:80", Metadata: map[string]string{"zone": "b"}})
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80")
	if err := stop(); err != nil {
		t.Errorf("deregistering: %v", err)
	}
	eventuallyTold(t, cc, "10.0.0.2:80 10.0.0.3:80")
	all, err := manager.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, e := range all {
		read = append(read, e.Addr)
	}
	slices.Sort(read)
	if !slices.Equal(read, []string{"10.0.0.2:80", "10.0.0.3:80"}) {
		t.Errorf("etcd's own package reads %v", read)
	}
}

func TestRealLeaseExpiry(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	cli := dial(t, etcdtest.Start(t), nil)
	cc, _ := realResolver(t, cli)
	register(t, cli, RegisterOptions{Address: "10.0.0.1:80"})
	lease, err := cli.Grant(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cli.Put(ctx, "shop.rpc/dying", "10.0.0.2:80", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")
	eventuallyTold(t, cc, "10.0.0.1:80")
}

func TestRealEtcdKilledAndRestarted(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	cli := dial(t, server, nil)
	cc, _ := realResolver(t, cli)
	stop := register(t, cli, RegisterOptions{Address: "10.0.0.1:80"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	register(t, cli, RegisterOptions{Address: "10.0.0.2:80"})
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")

	server.Kill()
	// One that comes while etcd is away is told why it has nothing.
	late, _ := realResolver(t, cli)
	eventually(t, "the outage is reported", func() bool { return strings.HasPrefix(late.last(), "error: looking for endpoints") })
	if got := cc.last(); got != "10.0.0.1:80 10.0.0.2:80" {
		t.Errorf("while etcd is away: %q", got)
	}
	server.Restart()
	eventuallyTold(t, late, "10.0.0.1:80 10.0.0.2:80")

	server.RestartEmpty()
	registered := func() bool {
		found, err := cli.Get(t.Context(), "shop.rpc/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && found.Count == 2
	}
	eventually(t, "both are registered again", registered)
	register(t, cli, RegisterOptions{Address: "10.0.0.3:80"})
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80")
	if err := stop(); err != nil {
		t.Errorf("deregistering: %v", err)
	}
	eventuallyTold(t, cc, "10.0.0.2:80 10.0.0.3:80")
	if cc.emptied() != 0 {
		t.Error("an empty list was told")
	}
}

func TestRealEtcdPaused(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	cli := dial(t, server, nil)
	cc, _ := realResolver(t, cli)
	register(t, cli, RegisterOptions{Address: "10.0.0.1:80"})
	eventuallyTold(t, cc, "10.0.0.1:80")

	server.Pause()
	late, _ := realResolver(t, cli)
	eventually(t, "the silence is noticed", func() bool { return strings.HasPrefix(late.last(), "error: looking for endpoints") })
	server.Resume()
	eventuallyTold(t, late, "10.0.0.1:80")
	register(t, cli, RegisterOptions{Address: "10.0.0.2:80"})
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")
	if cc.emptied() != 0 {
		t.Error("an empty list was told")
	}
}

// compactingAPI makes a change and compacts it away after the first list,
// before the watch starts from there.
type compactingAPI struct {
	*clientv3.Client
	once    sync.Once
	between func()
}

func (c *compactingAPI) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	c.once.Do(c.between)
	return c.Client.Watch(ctx, key, opts...)
}

func TestRealCompactionWhileTheWatcherIsAway(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	cli := dial(t, etcdtest.Start(t), nil)
	put := func(key, value string) int64 {
		r, err := cli.Put(ctx, key, value)
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
	put("shop.rpc/1", "10.0.0.1:80")
	cc, _ := realResolver(t, &compactingAPI{Client: cli, between: func() {
		put("shop.rpc/2", "10.0.0.2:80")
		if _, err := cli.Compact(ctx, put("other", "x")); err != nil {
			t.Error(err)
		}
	}})
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")
	put("shop.rpc/3", "10.0.0.3:80")
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80")
}

func TestRealClientConnsShareOneWatch(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	server := etcdtest.Start(t)
	cli := dial(t, server, nil)
	if _, err := cli.Put(ctx, "shop.rpc/1", "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	e := newEtcd(cli, slog.New(slog.DiscardHandler), quickTimings())
	t.Cleanup(e.Close)
	var conns []*grpc.ClientConn
	for range 200 {
		conn, err := grpc.NewClient(EtcdTarget(config.BackendEtcd{Key: "shop.rpc"}),
			grpc.WithResolvers(e.Builder()), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		conn.Connect()
		conns = append(conns, conn)
	}
	eventually(t, "etcd has a watch", func() bool { return watchers(t, server) > 0 })
	if n := watchers(t, server); n != 1 {
		t.Errorf("etcd has %d watches", n)
	}
	for _, conn := range conns {
		conn.Close()
	}
	eventually(t, "etcd has no watch any more", func() bool { return watchers(t, server) == 0 })
}

// watchers asks etcd how many watches it serves.
func watchers(t *testing.T, server *etcdtest.Server) int {
	t.Helper()
	for _, line := range metricsOf(t, server) {
		if n, ok := strings.CutPrefix(line, "etcd_debugging_mvcc_watcher_total "); ok {
			count, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			return count
		}
	}
	t.Fatal("etcd does not tell its watches")
	return 0
}

// metricsOf gives the lines of etcd's metrics.
func metricsOf(t *testing.T, server *etcdtest.Server) []string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + server.Endpoint + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}
