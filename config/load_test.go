package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// minimal is the least that is valid; tests add to it.
const minimal = `redis: {addresses: [127.0.0.1:6379]}
backends:
  - name: shop
    endpoints: [127.0.0.1:9100]
    reflection: true
`

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func mustParse(t *testing.T, text string, env ...string) *config.Config {
	t.Helper()
	c, err := config.Parse("gateway.yaml", []byte(text), environment(env...))
	if err != nil {
		t.Fatalf("Parse:\n%v", err)
	}
	return c
}

func faultsOf(t *testing.T, text string, env ...string) config.Faults {
	t.Helper()
	c, err := config.Parse("gateway.yaml", []byte(text), environment(env...))
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Parse gives %v, %v; want faults", c, err)
	}
	if c != nil {
		t.Error("Parse gives a configuration beside its faults")
	}
	return faults
}

func TestAbsentKeysHaveTheirDefaultsAtEveryDepth(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal+`    breaker:
      adaptive: {k: 2}
    tls: {server_name: shop}
register: {key: rpcgate.rpc}
etcd: {endpoints: [127.0.0.1:2379]}
http:
  # all of it is commented out
grpc: {keepalive: {time: 3m}}
`)
	b := config.DefaultBackend("shop")
	b.Endpoints, b.Reflection = []string{"127.0.0.1:9100"}, true
	b.Breaker.Adaptive.K = 2
	b.TLS = &config.ClientTLS{ServerName: "shop"}
	if !reflect.DeepEqual(c.Backends[0], b) {
		t.Errorf("backend\n got %+v\nwant %+v", c.Backends[0], b)
	}
	if c.HTTP.MaxBodySize != 4<<20 || c.HTTP.IdleTimeout != 2*time.Minute {
		t.Errorf("http has not its defaults: %+v", c.HTTP)
	}
	if c.GRPC.Keepalive.Time != 3*time.Minute || c.GRPC.Keepalive.Timeout != 20*time.Second {
		t.Errorf("grpc.keepalive is %+v", c.GRPC.Keepalive)
	}
	if c.Register.TTL != 10*time.Second {
		t.Errorf("register.ttl is %v, in a section that is optional", c.Register.TTL)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("Validate after Parse: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `redis:
  addresses: ["${REDIS}"]
  password: "$$a${PASSWORD}$b$"
  pool_size: ${POOL}
  username: ${NAME:-}
auth: {key_prefix: "${PREFIX:-ga:te}"}
log: {level: "${LEVEL:-warn}"}
backends:
  - {name: shop, endpoints: ["${HOST:-localhost}:${PORT:-9100}"], reflection: "${REFLECTION}", timeout: "${TIMEOUT}"}
`, "REDIS", "redis:6379", "PASSWORD", "x\n  mode: cluster # ${REDIS} $$", "POOL", "7", "REFLECTION", "true", "TIMEOUT", "3s", "LEVEL", "")
	if got, want := c.Redis.Password.Reveal(), "$ax\n  mode: cluster # ${REDIS} $$$b$"; got != want {
		t.Errorf("password is %q, want %q", got, want)
	}
	if c.Redis.Mode != "single" {
		t.Error("a variable's text became YAML")
	}
	if c.Redis.Addresses[0] != "redis:6379" || c.Redis.PoolSize != 7 || c.Redis.Username != "" || c.Auth.KeyPrefix != "ga:te" || c.Log.Level != "warn" {
		t.Errorf("redis is %+v, auth %+v, log %+v", c.Redis, c.Auth, c.Log)
	}
	if b := c.Backends[0]; b.Endpoints[0] != "localhost:9100" || !b.Reflection || b.Timeout != 3*time.Second {
		t.Errorf("backend is %+v", b)
	}
}

func TestAnchorsAliasesAndMergeKeys(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `redis: {addresses: [127.0.0.1:6379]}
backends:
  - &shop
    name: shop
    endpoints: &at [127.0.0.1:9100]
    reflection: true
    timeout: 3s
  - <<: *shop
    name: other
    timeout: 4s
  - <<: [{auth: none, timeout: 5s}, *shop]
    name: third
    endpoints: *at
`)
	for i, want := range []struct {
		name, auth string
		timeout    time.Duration
	}{{"shop", "required", 3 * time.Second}, {"other", "required", 4 * time.Second}, {"third", "none", 5 * time.Second}} {
		b := c.Backends[i]
		if b.Name != want.name || b.Auth != want.auth || b.Timeout != want.timeout || len(b.Endpoints) != 1 || !b.Reflection {
			t.Errorf("backend %d is %+v, want %+v", i, b, want)
		}
	}
}

func TestLoadReadsSecretsAndPathsBesideTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("redis-password", " two words \n")
	write("shop.protoset", "")
	write("shop.proto", "")
	write("gateway.yaml", `redis: {addresses: [127.0.0.1:6379], password: "${UNSET_HERE:-}", password_file: redis-password}
backends:
  - {name: shop, endpoints: [127.0.0.1:9100], protoset: [shop.protoset]}
  - {name: other, endpoints: [127.0.0.1:9100], proto: {files: [shop.proto]}}
`)
	c, err := config.Load(filepath.Join(dir, "gateway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Redis.Password.Reveal(); got != " two words " {
		t.Errorf("password is %q", got)
	}
	if got := c.Backends[0].Protoset[0]; got != filepath.Join(dir, "shop.protoset") {
		t.Errorf("protoset is %q", got)
	}
	if got := c.Backends[1].Proto.ImportPaths; len(got) != 1 || got[0] != dir {
		t.Errorf("import paths are %q", got)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("Validate after Load: %v", err)
	}
}

func TestLoadNamesAFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("Load gives %v", err)
	}
}

func TestNoSecretIsInAFault(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	// The variable ends up in every kind of value, and in front of every check.
	text := `http: {address: "${S}", tls: {cert_file: "${S}", key_file: "${S}"}, trusted_proxies: ["${S}"], idle_timeout: "${S}", max_body_size: "${S}"}
grpc: {max_concurrent_streams: "${S}", reflection: "${S}"}
redis: {addresses: ["${S}"], mode: "${S}", password: "${S}", password_file: p, sentinel_password: [` + secret + `], tls: {ca_file: "${S}", server_name: "${S}:"}, db: "${S}"}
etcd: {endpoints: ["http://u:${S}@h:1", "${S}"], password_file: "${S}"}
auth: {key_prefix: "${S} "}
register: {key: "${S}/", advertise: "${S}"}
log: {success_sample: "${S}"}
backends:
  - {name: "${S}!", endpoints: ["${S}"], target: "x://${S}", services: ["${S}!"], protoset: ["${S}"], proto: {files: ["${S}"], import_paths: ["${S}"]}, balancer: {hash_header: "${S}!"}, method_timeouts: {a.B/C: "${S}"}}
  - {name: "${S}", endpoints: ["a:1"], reflection: true}
  - {name: "${S}", endpoints: ["a:1"], reflection: true}
routes:
  - {method: "${S}", backend: "${S}x", http: {get: "${S}", body: "${S}!", response_body: "${S}!", custom: {kind: "${S}/", path: "${S}"}}}
  - {method: a.B/C, backend: hunter2hunter3, timeout: 1s}
`
	_, err := config.Parse(filepath.Join(dir, "gateway.yaml"), []byte(text), environment("S", secret))
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) < 30 {
		t.Fatalf("Parse gives %d faults, fewer than there are:\n%v", len(faults), err)
	}
	for _, f := range faults {
		if strings.Contains(f.Error(), "hunter2hunter2") {
			t.Errorf("the secret is in: %v", f)
		}
	}
}
