package discovery

import (
	"log/slog"
	"net/url"
	"testing"

	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
)

// parseTarget does what grpc.NewClient does.
func parseTarget(t *testing.T, target string) resolver.Target {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return resolver.Target{URL: *u}
}

func TestEtcdTarget(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cfg    config.BackendEtcd
		target string
		want   watchKey
	}{
		{config.BackendEtcd{Key: "shop.rpc"}, "etcd:///shop.rpc", watchKey{"shop.rpc", layoutAuto}},
		{config.BackendEtcd{Key: "shop.rpc", Layout: "auto"}, "etcd:///shop.rpc", watchKey{"shop.rpc", layoutAuto}},
		{config.BackendEtcd{Key: "/services/shop/", Layout: "zrpc"}, "etcd:///services/shop?layout=zrpc", watchKey{"services/shop", layoutZRPC}},
		{config.BackendEtcd{Key: "a b?c%d", Layout: "endpoints"}, "etcd:///a%20b%3Fc%25d?layout=endpoints", watchKey{"a b?c%d", layoutEndpoints}},
	} {
		target := EtcdTarget(tc.cfg)
		if target != tc.target {
			t.Errorf("EtcdTarget(%v) = %q, want %q", tc.cfg, target, tc.target)
		}
		if got, err := parseEtcdTarget(parseTarget(t, target)); err != nil || got != tc.want {
			t.Errorf("%q is %v, %v; want %v", target, got, err, tc.want)
		}
	}
}

func TestFaultyTargets(t *testing.T) {
	t.Parallel()
	etcd := newEtcd(newFakeEtcd(), slog.New(slog.DiscardHandler), defaultTimings())
	etcd.Close()
	for _, tc := range []struct {
		builder resolver.Builder
		target  string
	}{
		{etcd.Builder(), "etcd:///"},
		{etcd.Builder(), "etcd:///shop.rpc?layout=consul"},
		{etcd.Builder(), "etcd:///shop.rpc"}, // closed
		{StaticBuilder(), "static:///"},
		{StaticBuilder(), "static:///10.0.0.1"},
		{StaticBuilder(), "static:///10.0.0.1:80,"},
	} {
		if _, err := tc.builder.Build(parseTarget(t, tc.target), new(fakeConn), resolver.BuildOptions{}); err == nil {
			t.Errorf("%s: no error", tc.target)
		}
	}
}

func TestStatic(t *testing.T) {
	t.Parallel()
	target := StaticTarget([]string{"shop-1:80", "[::1]:81", "shop-1:80"})
	cc, r := resolve(t, StaticBuilder(), target)
	defer r.Close()
	r.ResolveNow(resolver.ResolveNowOptions{})
	if got := cc.last(); got != "shop-1:80 [::1]:81" {
		t.Errorf("%s resolves to %q", target, got)
	}
	if got := (staticBuilder{}).OverrideAuthority(parseTarget(t, target)); got != "shop-1:80" {
		t.Errorf("authority %q", got)
	}
}
