package auth

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// startCluster runs a cluster of three masters.
func startCluster(t *testing.T) []*redisServer {
	t.Helper()
	var nodes []*redisServer
	for range 3 {
		nodes = append(nodes, startRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000"))
	}
	ctx := t.Context()
	slots := [][2]int{{0, 5460}, {5461, 10922}, {10923, 16383}}
	for i, n := range nodes {
		rdb := n.client()
		if err := rdb.Do(ctx, "cluster", "addslotsrange", slots[i][0], slots[i][1]).Err(); err != nil {
			t.Fatal(err)
		}
		host, port, _ := net.SplitHostPort(nodes[0].addr)
		if i > 0 {
			if err := rdb.ClusterMeet(ctx, host, port).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, n := range nodes {
		rdb := n.client()
		eventually(t, "the cluster", func() bool {
			info := rdb.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	return nodes
}

// Every command and script works where a command's keys must share a slot, and
// a revocation is heard whichever node it is published on.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	rdb := open(t, config.Redis{Addresses: []string{nodes[0].addr, nodes[1].addr}, Mode: "cluster"})
	ctx := t.Context()
	for name, cfg := range map[string]config.Auth{"hashed": {}, "gozero": goZero()} {
		t.Run(name, func(t *testing.T) {
			s := tenant.NewStore(rdb, cfg)
			g := startGateway(t, rdb, cfg)
			g.hearing(t)
			// Enough apps to lie on every node.
			for _, app := range []string{"acme", "beta", "gamma", "delta", "epsilon", "zeta", "eta"} {
				issued, err := s.Issue(ctx, tenant.IssueOptions{App: app})
				if err != nil {
					t.Fatal(err)
				}
				g.verify(t, credential(issued), nil)
				next, err := s.Rotate(ctx, app, issued.ID, 0)
				if err != nil {
					t.Fatal(err)
				}
				within(t, soon, "the rotation", func() bool {
					_, err := g.Verify(ctx, credential(issued))
					return err != nil && g.told(Revocation{app, issued.ID})
				})
				g.verify(t, credential(next), nil)
				if err := s.Revoke(ctx, app, next.ID); err != nil {
					t.Fatal(err)
				}
				within(t, soon, "the revocation", func() bool {
					_, err := g.Verify(ctx, credential(next))
					return err != nil
				})
				if _, err := s.Issue(ctx, tenant.IssueOptions{App: app}); err != nil {
					t.Fatal(err)
				}
			}
			all, _, err := s.Tokens(ctx, "", "", 0)
			apps := map[string]bool{}
			for _, info := range all {
				apps[info.App] = true
			}
			if err != nil || len(apps) != 7 {
				t.Errorf("Tokens names %d apps, %v; want 7", len(apps), err)
			}
		})
	}
}

// A cluster's node is lost: the apps of the others are served on, and so is
// what is remembered.
func TestClusterLosesANode(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	for _, n := range nodes {
		if err := n.client().ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	rdb := open(t, config.Redis{Addresses: []string{nodes[0].addr, nodes[1].addr, nodes[2].addr}, Mode: "cluster"})
	s := tenant.NewStore(rdb, config.Auth{})
	g := startGateway(t, rdb, config.Auth{Cache: config.CredentialCache{Stale: time.Hour}})
	g.hearing(t)
	var tokens []tenant.Issued
	for _, app := range []string{"acme", "beta", "gamma", "delta", "epsilon", "zeta", "eta"} {
		tokens = append(tokens, issue(t, s, app))
		g.verify(t, credential(tokens[len(tokens)-1]), nil)
	}
	nodes[1].kill()
	for _, token := range tokens {
		g.cache.ExpireAll()
		g.verify(t, credential(token), nil)
	}
	eventually(t, "hearing revocations from the others", func() bool { return g.subscribed() })
	if g.told(Revocation{tokens[0].App, tokens[0].ID}) {
		t.Error("a token on a lost node was taken for revoked")
	}
}

// A master fails, and the sentinel puts its replica in its place: tokens stay
// valid, and revocations are heard from the new master.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	master := startRedis(t)
	host, port, _ := net.SplitHostPort(master.addr)
	replica := startRedis(t, "--replicaof", host+" "+port)
	rdb := master.client()
	eventually(t, "the replica", func() bool {
		return strings.Contains(replica.client().Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(conf, []byte("sentinel monitor tokens "+host+" "+port+" 1\n"+
		"sentinel down-after-milliseconds tokens 500\nsentinel failover-timeout tokens 2000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := startSentinel(t, conf)
	sc := redis.NewSentinelClient(&redis.Options{Addr: sentinel.addr})
	defer func() { _ = sc.Close() }()
	eventually(t, "the sentinel's knowledge of the replica", func() bool {
		replicas, err := sc.Replicas(t.Context(), "tokens").Result()
		return err == nil && slices.ContainsFunc(replicas, func(r map[string]string) bool { return r["master-link-status"] == "ok" })
	})

	through := open(t, config.Redis{Addresses: []string{sentinel.addr}, Mode: "sentinel", MasterName: "tokens"})
	s := tenant.NewStore(through, config.Auth{})
	g := startGateway(t, through, config.Auth{})
	g.hearing(t)
	token := issue(t, s, "acme")
	g.verify(t, credential(token), nil)
	if err := rdb.Do(t.Context(), "wait", 1, 1000).Err(); err != nil {
		t.Fatal(err)
	}

	master.kill()
	eventually(t, "the failover", func() bool {
		g.verify(t, credential(token), nil)
		return s.Revoke(t.Context(), "acme", token.ID) == nil
	})
	within(t, 2*soon, "the revocation", func() bool { return g.told(Revocation{"acme", token.ID}) })
	g.verify(t, credential(token), ErrRevoked)
}

func startSentinel(t *testing.T, conf string) *redisServer {
	t.Helper()
	s := &redisServer{t: t, conf: conf, args: []string{"--sentinel"}}
	t.Cleanup(s.kill)
	for range 5 {
		if s.addr = freeAddr(t); s.start() {
			return s
		}
		s.kill()
	}
	t.Fatalf("the sentinel does not start: %s", s.out)
	return nil
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one := []string{"127.0.0.1:1"}
	for _, tc := range []struct {
		name string
		cfg  config.Redis
		want string
	}{
		{"no address", config.Redis{}, "addresses"},
		{"two addresses of a single server", config.Redis{Addresses: []string{"a:1", "b:1"}}, "single"},
		{"a sentinel without a master", config.Redis{Addresses: one, Mode: "sentinel"}, "master_name"},
		{"a cluster's database", config.Redis{Addresses: one, Mode: "cluster", DB: 1}, "database"},
		{"an unknown mode", config.Redis{Addresses: one, Mode: "ring"}, "ring"},
		{"no CA file", config.Redis{Addresses: one, TLS: &config.ClientTLS{CAFile: filepath.Join(dir, "none.pem")}}, "none.pem"},
		{"an empty CA file", config.Redis{Addresses: one, TLS: &config.ClientTLS{CAFile: empty}}, "empty.pem"},
		{"a certificate without a key", config.Redis{Addresses: one, TLS: &config.ClientTLS{CertFile: empty}}, "key_file"},
	} {
		tc.cfg.Password = "s3cret"
		rdb, err := Open(tc.cfg)
		if rdb != nil || err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	got, err := (&config.ClientTLS{ServerName: "redis.example", InsecureSkipVerify: true}).Load()
	if err != nil || got.ServerName != "redis.example" || !got.InsecureSkipVerify || got.MinVersion != tls.VersionTLS12 {
		t.Errorf("TLS settings = %+v, %v", got, err)
	}
}
