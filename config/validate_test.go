package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var testTime = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// valid is a configuration as code builds it.
func valid() *Config {
	c := Defaults()
	c.Redis.Addresses = []string{"127.0.0.1:6379"}
	b := DefaultBackend("shop")
	b.Endpoints, b.Reflection = []string{"127.0.0.1:9100"}, true
	c.Backends = []Backend{b}
	return c
}

func TestValidateInCode(t *testing.T) {
	t.Parallel()
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	c := valid()
	c.Backends[0].Breaker.Kind = "adaptivee"
	c.Backends[0].MethodTimeouts = map[string]time.Duration{"x": -time.Second}
	c.Redis.PasswordFile = "somewhere"
	err := c.Validate()
	want := `redis.password_file: has not been read; only Load and Parse do that
backends[0].method_timeouts.x: "x" has no slash before the method; write package.Service/Method`
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), want) || len(faults) != 4 {
		t.Errorf("Validate gives\n%v", err)
	}
	for _, f := range faults {
		if f.File != "" || f.Line != 0 {
			t.Errorf("a fault has a place: %#v", f)
		}
	}
}

// writePair writes a certificate that ends at a time, and its key.
func writePair(t *testing.T, dir, name string, end time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for suffix, block := range map[string]*pem.Block{
		".crt": {Type: "CERTIFICATE", Bytes: certificate}, ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
}

func TestTLSFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certA, keyA := writePair(t, dir, "a", testTime)
	_, keyB := writePair(t, dir, "b", testTime)
	c := valid()
	c.HTTP.TLS = &ServerTLS{CertFile: certA, KeyFile: keyA, ClientCAFile: certA}
	c.Backends[0].TLS = &ClientTLS{CAFile: certA, ServerName: "shop.internal"}
	if err := c.Validate(); err != nil {
		t.Errorf("files that are right: %v", err)
	}
	if w := c.Warnings(testTime.Add(time.Hour)); len(w) != 1 || w[0].Key != "http.tls.cert_file" {
		t.Errorf("the certificate has ended, and the warnings are %v", w)
	}
	c.HTTP.TLS.KeyFile = keyB
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "http.tls.key_file") {
		t.Errorf("a key of another certificate: %v", err)
	}
	c.HTTP.TLS.KeyFile = filepath.Join(dir, "none")
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a key that is not there: %v", err)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	c := valid()
	if w := c.Warnings(testTime); len(w) != 0 {
		t.Errorf("warnings of a plain configuration: %v", w)
	}
	c.Admin.Address = ":9091"
	c.HTTP.TrustedProxies = []string{"0.0.0.0/0"}
	c.HTTP.CORS.AllowedOrigins = []string{"*", "https://*.example.com", "http://localhost:*"}
	c.HTTP.Streams.AllowedOrigins = []string{"https://app*"}
	c.HTTP.OpenAPI, c.HTTP.Protocols = true, []string{"grpc"}
	c.Auth.RevokeInFlight = "cancel"
	c.Redis.TLS = &ClientTLS{InsecureSkipVerify: true}
	c.Backends[0].Pool.Key = "shared"
	c.Backends[0].Balancer.HashHeader = "x"
	c.Backends[0].Auth = "none"
	c.Routes = []Route{{Method: "a.B/C", LogBodies: true}}
	if w := c.Warnings(testTime); len(w) != 10 {
		t.Errorf("%d warnings, want 10:\n%v", len(w), w)
	}
}

// What stands under http.cors without any effect is told.
func TestWarningsOfCORS(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]struct {
		cors CORS
		want []string
	}{
		"nothing":     {CORS{AllowedMethods: []string{"GET"}}, nil},
		"origins":     {CORS{AllowedOrigins: []string{"https://a.example"}, AllowedHeaders: []string{"X-A"}}, nil},
		"no origins":  {CORS{ExposedHeaders: []string{"ETag"}}, []string{"http.cors: does nothing without allowed_origins"}},
		"credentials": {CORS{AllowCredentials: true}, []string{"http.cors: does nothing without allowed_origins"}},
		"lower case":  {CORS{AllowedMethods: []string{"GET", "patch"}}, []string{`http.cors.allowed_methods[1]: "patch" is another method than PATCH`}},
	} {
		c := valid()
		c.HTTP.CORS = check.cors
		got := c.Warnings(testTime)
		if len(got) != len(check.want) {
			t.Errorf("%s: %v, want %v", name, got, check.want)
			continue
		}
		for i, w := range got {
			if !strings.Contains(w.Error(), check.want[i]) {
				t.Errorf("%s: %v, want %s", name, w, check.want[i])
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]struct {
		ok        func(string) bool
		good, bad []string
	}{
		"backend": {isBackendName, []string{"shop", "shop-2", "a.b_c", "1"}, []string{"", "-a", "a b", "a/b", "ä", strings.Repeat("a", 64)}},
		"method":  {func(s string) bool { return methodName(s) == "" }, []string{"a.B/C", "B/C", "a._b.C1/D_2"}, []string{"", "/a.B/C", "a.B.C", "a.B/", "/", "a..B/C", "a.B/C/D", "1a.B/C", "a.B/C "}},
		"listen":  {func(s string) bool { return listenAddress(s) == "" }, []string{":0", ":8080", "127.0.0.1:1", "[::]:1", "host:1", "[fe80::1%eth0]:1"}, []string{"", "8080", "a", "a:b", "::1:80", ":65536", "http://a:1", ":-1", ":+1"}},
		"dial":    {func(s string) bool { return dialAddress(s) == "" }, []string{"a:1", "a-b.c_d.:1", "[::1]:1"}, []string{":1", "a:0", "a b:1", "a..b:1", "-a:1", "[x]:1:2", "a:http"}},
		"target":  {func(s string) bool { return grpcTarget(s) == "" }, []string{"dns:///a:1", "dns:///a", "dns:a:1", "dns://8.8.8.8/a:1", "unix:/a", "unix:///a", "xds:///a", "a:1", "passthrough:///a:1", "[::1]:80"}, []string{"", "dns:///", "dns://a:1", "etcd:///a", "unix:", "foo://a", "a", "dns:///a b"}},
		"etcd":    {func(s string) bool { return etcdEndpoint(s) == "" }, []string{"a:1", "http://a:1", "https://a:1/"}, []string{"a", "http://a", "ftp://a:1", "http://u@a:1", "http://a:1?b", "http://%zz:1"}},
		"origin": {func(s string) bool { return originFault(s) == "" },
			[]string{"*", "https://a.example", "http://localhost:3000", "http://[::1]:80801"[:16], "https://*.example.com", "https://*", "http://localhost:*", "capacitor://localhost", "http://a:443"},
			[]string{"", "null", "a.example", "https://", "https://a/", "https://a/b", "https://u@a", "https://a?b", "https://a#", "https://*.*.a", "//a", "https:a", "https://a:443", "http://a:80", "https://a b", "https://a:b", "https://a?"}},
		"header":   {isHeaderName, []string{"X-App", "a.b_c-1"}, []string{"", "a b", ":path", "x*", "ä", "a~"}},
		"reserved": {ReservedHeader, []string{"", ":path", "app", "authorization", "grpc-status", "x-forwarded-prefix", "sec-websocket-protocol", "access-control-allow-origin", "te", "host", "content-length"}, []string{"x-tenant", "cookie", "set-cookie", "etag", "accept", "grpcgateway-cookie", "x-forwarded", "sec-fetch-mode", "apple"}},
		"metadata": {isMetadataKey, []string{"x-app", "a.b_c-1"}, []string{"", "X-App", "a b", ":path"}},
	} {
		for _, s := range check.good {
			if !check.ok(s) {
				t.Errorf("%s: %q is refused", name, s)
			}
		}
		for _, s := range check.bad {
			if check.ok(s) {
				t.Errorf("%s: %q is accepted", name, s)
			}
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"0": 0, "512": 512, "512B": 512, "64KiB": 64 << 10, "4MiB": 4 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40,
		"1KB": 1000, "3MB": 3e6, "1GB": 1e9, "1TB": 1e12, "9223372036854775807": 1<<63 - 1,
	} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %v, %v; want %d", text, got, err, want)
		}
		if again, err := ParseSize(got.String()); err != nil || again != got {
			t.Errorf("%d writes itself as %q, which is read as %d, %v", got, got, again, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "MiB", "1.5MiB", "1 MiB", "4mb", "1K", "9223372036854775808", "8388608TiB", "0x10"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d", text, got)
		}
	}
}

func TestSecretsPrintRedacted(t *testing.T) {
	t.Parallel()
	c := valid()
	c.Redis.Password = "hunter2"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if text := fmt.Sprintf(verb, c.Redis); strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") {
			t.Errorf("%s prints the secret: %s", verb, text)
		}
		if text := fmt.Sprintf(verb, c.Redis.Password); strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") {
			t.Errorf("%s prints the secret: %s", verb, text)
		}
	}
}
