package discovery

import (
	"context"
	"crypto/x509"
	"fmt"
	"strconv"
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

// A JWT expires however much it is used: watches and registrations live on
// with a new one.
func TestRealAuthJWTExpires(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	dir, key := t.TempDir(), newKey(t)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	server := etcdtest.Start(t, "--auth-token", fmt.Sprintf("jwt,pub-key=%s,priv-key=%s,sign-method=ES256,ttl=1s",
		writePEM(t, dir, "public.pem", "PUBLIC KEY", public), writeKey(t, dir, "private.pem", key)))
	enableAuth(ctx, t, dial(t, server, nil))
	cli := dial(t, server, as("root", "pw"))
	cc, _ := realResolver(t, cli)
	want := ""
	for i := range 4 { // each after the token before has expired
		register(t, cli, RegisterOptions{Address: addressOf(i)})
		want = strings.TrimSpace(want + " " + addressOf(i))
		eventuallyTold(t, cc, want)
		tokens := requests(t, server, "Authenticate")
		eventually(t, "another token is asked for", func() bool { return requests(t, server, "Authenticate") > tokens })
	}
	if got := cc.last(); got != want {
		t.Errorf("at the end: %q", got)
	}
	if cc.emptied() != 0 {
		t.Error("an empty list was told")
	}
}

// Who is refused does not ask without pause, neither for a token nor for the
// list.
func TestRealAuthRefusedDoesNotSpin(t *testing.T) {
	t.Parallel()
	ctx := realContext(t)
	server := etcdtest.Start(t)
	root := dial(t, server, nil)
	if _, err := root.UserAdd(ctx, "nobody", "pw"); err != nil { // without a role
		t.Fatal(err)
	}
	enableAuth(ctx, t, root)
	for _, tc := range []struct{ user, password, told string }{
		{"root", "guess", "authentication failed"},
		{"nobody", "pw", "permission denied"},
	} {
		cc, _ := realResolver(t, dial(t, server, as(tc.user, tc.password)))
		eventually(t, "the refusal is reported", func() bool { return strings.Contains(cc.last(), tc.told) })
		// quickTimings pause for four fifths of 500 ms and more, once they have grown.
		asked, began := requests(t, server, "Authenticate", "Range", "Watch"), time.Now()
		eventually(t, "it asks in vain for a while", func() bool { return time.Since(began) > 3*time.Second })
		asked, took := requests(t, server, "Authenticate", "Range", "Watch")-asked, time.Since(began)
		// A try may take a few requests: without a token, for one, and with it.
		if most := 5 * (int(took/(400*time.Millisecond)) + 5); asked > most {
			t.Errorf("%s: %d requests in %v, more than %d", tc.user, asked, took, most)
		}
		if strings.Contains(cc.last(), tc.password) && tc.password != "pw" {
			t.Error("the password is in the error")
		}
	}
}

// requests tells how many requests of these methods etcd was sent.
func requests(t *testing.T, server *etcdtest.Server, methods ...string) int {
	t.Helper()
	sum := 0
	for _, line := range metricsOf(t, server) {
		if !strings.HasPrefix(line, "grpc_server_started_total{") {
			continue
		}
		for _, method := range methods {
			if strings.Contains(line, fmt.Sprintf("grpc_method=%q", method)) {
				n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += int(n)
			}
		}
	}
	return sum
}

// Over TLS, with certificates at both ends.
func TestRealTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var files etcdtest.TLS
	files.CAFile = ca.File
	files.CertFile, files.KeyFile = ca.issue(t, "etcd")
	server := etcdtest.StartTLS(t, files)
	own := &config.ClientTLS{CAFile: ca.File}
	own.CertFile, own.KeyFile = ca.issue(t, "gateway")
	with := func(tls *config.ClientTLS) *clientv3.Client {
		return dial(t, server, func(cfg *config.Etcd) { cfg.TLS = tls })
	}
	cli := with(own)
	cc, _ := realResolver(t, cli)
	register(t, cli, RegisterOptions{Address: "10.0.0.1:80"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	server.Restart()
	register(t, cli, RegisterOptions{Address: "10.0.0.2:80"})
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")

	named := *own
	named.ServerName = "etcd.internal" // which its certificate has, too
	byName, _ := realResolver(t, with(&named))
	eventuallyTold(t, byName, "10.0.0.1:80 10.0.0.2:80")

	for name, tls := range map[string]*config.ClientTLS{
		"clear text":          nil,
		"no certificate":      {CAFile: ca.File},
		"another authority":   {CAFile: newAuthority(t).File, CertFile: own.CertFile, KeyFile: own.KeyFile},
		"another host's name": {CAFile: ca.File, CertFile: own.CertFile, KeyFile: own.KeyFile, ServerName: "example.com"},
		"the system's alone":  {CertFile: own.CertFile, KeyFile: own.KeyFile},
	} {
		refused, _ := realResolver(t, with(tls))
		eventually(t, name+": the refusal is reported", func() bool { return strings.HasPrefix(refused.last(), "error: looking for endpoints") })
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
