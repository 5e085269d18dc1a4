package discovery

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rpcgate/rpcgate/integration/etcdtest"
)

func TestNewRegistrationRefusesFaultyOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		o     RegisterOptions
		fault string
	}{
		{RegisterOptions{Address: "a:1"}, "no key"},
		{RegisterOptions{Key: "/", Address: "a:1"}, "no key"},
		{RegisterOptions{Key: "k", Address: "a"}, "not host:port"},
		{RegisterOptions{Key: "k", Address: "a:1", TTL: -1}, "negative"},
	} {
		_, err := NewRegistration(nil, tc.o, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%+v: %v, want %q", tc.o, err, tc.fault)
		}
	}
}

func TestRealRegistrationComesBack(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	server := etcdtest.Start(t)
	cli := dial(t, server, nil)
	entry := func() (key string, lease clientv3.LeaseID) {
		found, err := cli.Get(ctx, "shop.rpc/", clientv3.WithPrefix())
		if err != nil || len(found.Kvs) != 1 {
			return "", 0
		}
		return string(found.Kvs[0].Key), clientv3.LeaseID(found.Kvs[0].Lease)
	}
	registered := func() bool { key, _ := entry(); return key != "" }
	stop := register(t, cli, RegisterOptions{Address: "10.0.0.1:80"})
	eventually(t, "registered", registered)

	key, first := entry()
	if _, err := cli.Delete(ctx, key); err != nil {
		t.Fatal(err)
	}
	eventually(t, "written again after it was deleted", registered)

	if _, err := cli.Revoke(ctx, first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "registered under another lease", func() bool {
		_, lease := entry()
		return lease != 0 && lease != first
	})

	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if key, _ := entry(); key != "" {
		t.Errorf("%s is still there", key)
	}
}

func TestRealDeregistrationWithoutEtcd(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	cli := dial(t, server, nil)
	cc, _ := realResolver(t, cli)
	stop := register(t, cli, RegisterOptions{Address: "10.0.0.1:80"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	server.Kill()
	started := time.Now()
	if err := stop(); err == nil || !strings.Contains(err.Error(), "deregistering") {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(started); took > 2*registerTimeout {
		t.Errorf("stopping took %v", took)
	}
}
