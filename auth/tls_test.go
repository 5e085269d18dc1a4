package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// certificate writes a certificate for 127.0.0.1 that is its own authority, and
// its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}

// Redis over TLS, with certificates on both sides.
func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	startRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	for name, tc := range map[string]struct {
		tls *config.ClientTLS
		ok  bool
	}{
		"trusted":            {&config.ClientTLS{CAFile: cert, CertFile: cert, KeyFile: key}, true},
		"an unknown server":  {&config.ClientTLS{CertFile: cert, KeyFile: key}, false},
		"another name":       {&config.ClientTLS{CAFile: cert, CertFile: cert, KeyFile: key, ServerName: "redis"}, false},
		"no certificate":     {&config.ClientTLS{CAFile: cert}, false},
		"no check, as asked": {&config.ClientTLS{CertFile: cert, KeyFile: key, InsecureSkipVerify: true}, true},
		"no TLS":             {nil, false},
	} {
		rdb := open(t, config.Redis{Addresses: []string{addr}, TLS: tc.tls, ReadTimeout: limit, DialTimeout: limit})
		s := tenant.NewStore(rdb, config.Auth{})
		if _, err := s.Issue(t.Context(), tenant.IssueOptions{App: "acme"}); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
