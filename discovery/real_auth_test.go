package discovery

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/etcdtest"
)

func as(user, password string) func(*config.Etcd) {
	return func(cfg *config.Etcd) { cfg.Username, cfg.Password = user, config.Secret(password) }
}

// enableAuth turns etcd's authentication on, with a root of password "pw".
func enableAuth(ctx context.Context, t *testing.T, cli *clientv3.Client) {
	t.Helper()
	if _, err := cli.UserAdd(ctx, "root", "pw"); err != nil {
		t.Fatal(err)
	}
	if _, err := cli.UserGrantRole(ctx, "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := cli.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestRealAuthTokenExpires(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	server := etcdtest.Start(t, "--auth-token-ttl", "1")
	enableAuth(ctx, t, dial(t, server, nil))
	cli := dial(t, server, as("root", "pw"))
	cc, _ := realResolver(t, cli)
	register(t, cli, RegisterOptions{Address: "10.0.0.1:80"})
	eventuallyTold(t, cc, "10.0.0.1:80")

	// A restarted etcd knows none of its tokens.
	server.Restart()
	register(t, cli, RegisterOptions{Address: "10.0.0.2:80"})
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")
	if cc.emptied() != 0 {
		t.Error("an empty list was told")
	}

	wrong, _ := realResolver(t, dial(t, server, as("root", "guess")))
	eventually(t, "the refusal is reported", func() bool { return strings.Contains(wrong.last(), "authentication failed") })
	if strings.Contains(wrong.last(), "guess") {
		t.Error("the password is in the error")
	}
}

func TestDialDoesNotWaitForEtcd(t *testing.T) {
	t.Parallel()
	const longTimeout = time.Minute
	started := time.Now()
	cli, err := Dial(config.Etcd{
		Endpoints: []string{"127.0.0.1:1"}, DialTimeout: longTimeout, Username: "root", Password: "pw",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	if took := time.Since(started); took > longTimeout/2 {
		t.Errorf("Dial took %v", took)
	}
}

func TestDialRefusesFaultySettings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cfg   config.Etcd
		fault string
	}{
		{config.Etcd{}, "no endpoints"},
		{config.Etcd{Endpoints: []string{"a:1"}, TLS: &config.ClientTLS{CAFile: "testdata/none.pem"}}, "tls.ca_file"},
		{config.Etcd{Endpoints: []string{"a:1"}, TLS: &config.ClientTLS{CAFile: "dial.go"}}, "no certificate"},
		{config.Etcd{Endpoints: []string{"a:1"}, TLS: &config.ClientTLS{CertFile: "testdata/none.pem"}}, "tls.cert_file"},
	} {
		_, err := Dial(tc.cfg)
		if err == nil || !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("Dial: %v, want %q", err, tc.fault)
		}
	}
}
