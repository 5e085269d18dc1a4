package redistest

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
	"strconv"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/process"
)

// Authority signs certificates for servers on the loopback interface.
type Authority struct {
	// File is its own certificate, in PEM.
	File string

	tb   testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Certificate is a certificate and its key, in PEM files.
type Certificate struct{ CertFile, KeyFile string }

// NewAuthority makes an authority.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, dir: tb.TempDir()}
	a.File = filepath.Join(a.dir, "ca.pem")
	a.cert, a.key = a.make(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, a.File, filepath.Join(a.dir, "ca.key"))
	return a
}

// Issue signs a certificate for 127.0.0.1. One of the same name takes the place
// of the one before.
func (a *Authority) Issue(name string) Certificate {
	a.tb.Helper()
	c := Certificate{filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")}
	a.make(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, c.CertFile, c.KeyFile)
	return c
}

// make signs a certificate with a new key, by the authority, or itself while
// there is none.
func (a *Authority) make(template *x509.Certificate, certFile, keyFile string) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.tb, err)
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	must(a.tb, err)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(a.tb, err)
	cert, err := x509.ParseCertificate(der)
	must(a.tb, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.tb, err)
	must(a.tb, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(a.tb, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return cert, key
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// StartTLS starts a server that takes TLS connections at tlsAddr, beside those in
// clear text at Addr. Its clients need a certificate of the authority.
func StartTLS(tb testing.TB, a *Authority, c Certificate, o Options) (s *Server, tlsAddr string) {
	tb.Helper()
	port := process.FreePort(tb)
	o.Args = append([]string{
		"--tls-port", strconv.Itoa(port), "--tls-ca-cert-file", a.File, "--tls-cert-file", c.CertFile, "--tls-key-file", c.KeyFile,
	}, o.Args...)
	return Start(tb, o), process.Loopback(port)
}

// UseCertificate has new TLS connections see another certificate. A setting must
// fit the others at each step, so all change in one.
func (s *Server) UseCertificate(c Certificate) {
	s.tb.Helper()
	s.Do("CONFIG", "SET", "tls-cert-file", c.CertFile, "tls-key-file", c.KeyFile)
}
