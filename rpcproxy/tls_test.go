package rpcproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/rpcgate/rpcgate/config"
)

// authority is a certificate authority for tests.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its own certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	a.must(err)
	a.cert, err = x509.ParseCertificate(der)
	a.must(err)
	a.file = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	return key
}

func (a *authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	a.must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// issue makes a certificate, and gives its files.
func (a *authority) issue(name string, template x509.Certificate) (certFile, keyFile string) {
	a.t.Helper()
	template.SerialNumber = big.NewInt(2)
	template.NotAfter = time.Now().Add(time.Hour)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, key.Public(), a.key)
	a.must(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	a.must(err)
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+"-key.pem", "EC PRIVATE KEY", keyDER)
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	serveTLS := func(template x509.Certificate, mutual bool) *server {
		certFile, keyFile := ca.issue("server", template)
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		ca.must(err)
		cfg := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
		if mutual {
			cfg.ClientCAs, cfg.ClientAuth = pool, tls.RequireAndVerifyClientCert
		}
		return serve(t, whoami(), grpc.Creds(credentials.NewTLS(cfg)))
	}
	byAddress := serveTLS(x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, false)
	byName := serveTLS(x509.Certificate{DNSNames: []string{"shop.internal"}}, false)
	mutual := serveTLS(x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, true)
	clearText := serve(t, whoami())
	clientCert, clientKey := ca.issue("client", x509.Certificate{})

	for name, tt := range map[string]struct {
		server *server
		tls    *config.ClientTLS
		ok     bool
	}{
		"by address":          {byAddress, &config.ClientTLS{CAFile: ca.file}, true},
		"by name":             {byName, &config.ClientTLS{CAFile: ca.file, ServerName: "shop.internal"}, true},
		"another name":        {byName, &config.ClientTLS{CAFile: ca.file}, false},
		"unknown authority":   {byAddress, &config.ClientTLS{}, false},
		"skip verify":         {byName, &config.ClientTLS{InsecureSkipVerify: true}, true},
		"client certificate":  {mutual, &config.ClientTLS{CAFile: ca.file, CertFile: clientCert, KeyFile: clientKey}, true},
		"no client cert":      {mutual, &config.ClientTLS{CAFile: ca.file}, false},
		"clear text to tls":   {byAddress, nil, false},
		"tls to clear text":   {clearText, &config.ClientTLS{CAFile: ca.file}, false},
		"clear text to clear": {clearText, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, tt.server.addr, func(c *config.Backend) { c.TLS = tt.tls }, Options{})
			_, err := unary(testContext(t), b, app("a"), "x")
			// A connection to one endpoint alone is no other.
			if _, direct := callAt(t, b, app("a"), tt.server.addr); (direct == nil) != (err == nil) {
				t.Errorf("to the endpoint alone: %v; else %v", direct, err)
			}
			if tt.ok {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var lost *UnreachableError
			if !errors.As(err, &lost) {
				t.Errorf("%T %v, want an UnreachableError", err, err)
			}
			t.Log(err)
		})
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	ca := newAuthority(t)
	noPEM := filepath.Join(ca.dir, "empty")
	ca.must(os.WriteFile(noPEM, []byte("nothing"), 0o600))
	for name, change := range map[string]func(*config.Backend){
		"no target":      func(c *config.Backend) { c.Endpoints = nil },
		"unknown scheme": func(c *config.Backend) { c.Endpoints, c.Target = nil, "nowhere://x/%zz" },
		"ca missing":     func(c *config.Backend) { c.TLS = &config.ClientTLS{CAFile: filepath.Join(ca.dir, "none")} },
		"ca empty":       func(c *config.Backend) { c.TLS = &config.ClientTLS{CAFile: noPEM} },
		"key missing":    func(c *config.Backend) { c.TLS = &config.ClientTLS{CertFile: ca.file} },
		"key mismatch":   func(c *config.Backend) { c.TLS = &config.ClientTLS{CertFile: ca.file, KeyFile: noPEM} },
		"balancer":       func(c *config.Backend) { c.Balancer.Policy = "dice" },
		"breaker":        func(c *config.Backend) { c.Breaker.Kind = "fuse" },
		"pool":           func(c *config.Backend) { c.Pool.Key = "tenant" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.DefaultBackend("b")
			cfg.Endpoints = []string{"127.0.0.1:1"}
			change(&cfg)
			b, err := New(cfg, Options{})
			if err == nil {
				_ = b.Close()
				t.Fatal("accepted")
			}
			t.Log(err)
		})
	}
}

func TestTargets(t *testing.T) {
	for _, tt := range []struct {
		cfg  config.Backend
		opt  string
		want string
	}{
		{cfg: config.Backend{Endpoints: []string{"h:1", "i:2"}}, want: "static:///h:1,i:2"},
		{cfg: config.Backend{Etcd: &config.BackendEtcd{Key: "shop.rpc"}}, want: "etcd:///shop.rpc"},
		{cfg: config.Backend{Target: "dns:///h:1"}, want: "dns:///h:1"},
		{cfg: config.Backend{Target: "dns:///h:1"}, opt: "passthrough:///x", want: "passthrough:///x"},
	} {
		if got, err := targetOf(tt.cfg, tt.opt); err != nil || got != tt.want {
			t.Errorf("%s, %v, want %s", got, err, tt.want)
		}
	}
}
