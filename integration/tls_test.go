package integration_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

const unary = "/testbackend.Echo/Unary"

func TestHTTPOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	r := newTLSRig(t, ca.issue("gateway", 1), "")
	for _, tc := range []struct {
		proto string
		set   func(*http.Protocols)
	}{
		{"HTTP/1.1", func(p *http.Protocols) { p.SetHTTP1(true) }},
		{"HTTP/2.0", func(p *http.Protocols) { p.SetHTTP1(true); p.SetHTTP2(true) }}, // ALPN prefers it
	} {
		t.Run(tc.proto, func(t *testing.T) {
			a, err := r.callTLS(t, ca.client(), tc.set)
			if err != nil {
				t.Fatal(err)
			}
			a.ok(t, "")
			if a.Proto != tc.proto {
				t.Errorf("spoke %s", a.Proto)
			}
		})
	}
	t.Run("clear text", func(t *testing.T) {
		if a := r.do(t, r.http1, http.MethodPost, unary, "{}"); a.Status != http.StatusBadRequest {
			t.Errorf("status %d", a.Status)
		}
	})
	t.Run("TLS 1.1", func(t *testing.T) {
		old := ca.client()
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if _, err := r.handshake(t, old); err == nil {
			t.Error("was accepted")
		}
	})
}

func TestGRPCOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	r := newTLSRig(t, ca.issue("gateway", 1), "")
	if _, err := invoke(r.limited(t), dialTLS(t, r.GRPC, ca.client()), unary, nil); err != nil {
		t.Error(err)
	}
	_, err := invoke(r.limited(t), dialTLS(t, r.GRPC, newAuthority(t).client()), unary, nil)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client that trusts somebody else: %v", err)
	}
	if _, err = invoke(r.limited(t), r.conn, unary, nil); status.Code(err) != codes.Unavailable {
		t.Errorf("clear text: %v", err)
	}
}

// Callers of both ports must show a certificate of the configured authority.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ca, callers := newAuthority(t), newAuthority(t)
	r := newTLSRig(t, ca.issue("gateway", 1), ", client_ca_file: "+callers.file)
	for name, tc := range map[string]struct {
		certificates []tls.Certificate
		accepted     bool
	}{
		"none":                      {nil, false},
		"of the wrong authority":    {[]tls.Certificate{ca.issue("caller", 2).load(t)}, false},
		"of the callers' authority": {[]tls.Certificate{callers.issue("caller", 2).load(t)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			config := ca.client()
			// Not Certificates, of which a client shows none that the server did not ask for.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				for _, c := range tc.certificates {
					return &c, nil
				}
				return new(tls.Certificate), nil
			}
			a, err := r.callTLS(t, config, func(p *http.Protocols) { p.SetHTTP1(true) })
			if (err == nil) != tc.accepted {
				t.Errorf("HTTP: %v, accepted %v", err, !tc.accepted)
			}
			if err == nil {
				a.ok(t, "")
			}
			_, err = invoke(r.limited(t), dialTLS(t, r.GRPC, config), unary, nil)
			if (err == nil) != tc.accepted {
				t.Errorf("gRPC: %v, accepted %v", err, !tc.accepted)
			}
		})
	}
}

// A renewed certificate needs no restart; one that cannot be read is told of
// once, and the old one stays.
func TestCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	pair := ca.issue("gateway", 1)
	r := newTLSRig(t, pair, "")
	serves := func(serial int64) func() error {
		return func() error {
			got, err := r.handshake(t, ca.client())
			if err == nil && got != serial {
				err = fmt.Errorf("certificate %d is served, want %d", got, serial)
			}
			return err
		}
	}
	gatewaytest.Eventually(t, serves(1))

	// Times of their own, as a file system's clock may be coarser than this test.
	replace := func(data []byte, at time.Time) {
		part := pair.cert + ".part"
		ca.must(os.WriteFile(part, data, 0o600))
		ca.must(os.Chtimes(part, at, at))
		ca.must(os.Rename(part, pair.cert))
	}
	replace([]byte("half written"), time.Now().Add(-time.Minute))
	const refused = "the new certificate cannot be used"
	gatewaytest.Eventually(t, func() error {
		if err := serves(1)(); err != nil {
			return err
		}
		if !strings.Contains(r.Output(), refused) {
			return errors.New("it was not told of")
		}
		return nil
	})

	next := ca.issue("next", 2)
	key, err := os.ReadFile(next.key)
	ca.must(err)
	cert, err := os.ReadFile(next.cert)
	ca.must(err)
	ca.must(os.WriteFile(pair.key, key, 0o600))
	replace(cert, time.Now())
	gatewaytest.Eventually(t, serves(2))
	if n := strings.Count(r.Output(), refused); n != 1 {
		t.Errorf("it was told of %d times", n)
	}
	if _, err := invoke(r.limited(t), dialTLS(t, r.GRPC, ca.client()), unary, nil); err != nil {
		t.Error(err)
	}
}

func TestBackendOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	own, stranger := ca.issue("edge", 7), newAuthority(t).issue("edge", 8)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	seen := make(chan int64, 10)
	b := testbackend.Start(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{ca.issue("backend", 1).load(t)},
		ClientCAs:    roots, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		p, _ := peer.FromContext(s.Context())
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			seen <- info.State.PeerCertificates[0].SerialNumber.Int64()
		}
		return s.Send(nil)
	})
	protoset := filepath.Join(t.TempDir(), "echo.pb") // reflection would need what is tested
	ca.must(os.WriteFile(protoset, b.Protoset(), 0o600))
	for name, tc := range map[string]struct {
		tls  string
		code codes.Code
	}{
		"trusted both ways":    {fmt.Sprintf("{ca_file: %s, cert_file: %s, key_file: %s}", ca.file, own.cert, own.key), codes.OK},
		"no certificate":       {fmt.Sprintf("{ca_file: %s}", ca.file), codes.Unavailable},
		"a stranger's":         {fmt.Sprintf("{ca_file: %s, cert_file: %s, key_file: %s}", ca.file, stranger.cert, stranger.key), codes.Unavailable},
		"of another authority": {fmt.Sprintf("{ca_file: %s, cert_file: %s, key_file: %s}", newAuthority(t).file, own.cert, own.key), codes.Unavailable},
		"of another name":      {fmt.Sprintf("{ca_file: %s, server_name: elsewhere.test, cert_file: %s, key_file: %s}", ca.file, own.cert, own.key), codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, echoConfig(b, "protoset: ["+protoset+"]\ntls: "+tc.tls))
			_, err := invoke(r.limited(t), r.conn, unary, nil)
			if status.Code(err) != tc.code {
				t.Fatalf("got %v, want %v", err, tc.code)
			}
			if tc.code == codes.OK {
				if got := waitFor(t, seen, "the client's certificate"); got != 7 {
					t.Errorf("the backend saw certificate %d", got)
				}
			}
		})
	}
}

// newTLSRig is newEchoRig with both ports over TLS; more goes into their tls
// blocks.
func newTLSRig(t *testing.T, pair certPair, more string) *rig {
	t.Helper()
	block := fmt.Sprintf("{address: \"127.0.0.1:0\", tls: {cert_file: %s, key_file: %s%s}}\n", pair.cert, pair.key, more)
	r, _ := newEchoRig(t, "", "http: "+block+"grpc: "+block)
	return r
}

// callTLS makes a call with the rig's credential over a connection of its own.
func (r *rig) callTLS(t testing.TB, config *tls.Config, protocols func(*http.Protocols)) (answer, error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols)}
	protocols(transport.Protocols)
	defer transport.CloseIdleConnections()
	req := r.request(t, limited(t), http.MethodPost, unary, "{}", "Authorization", r.bearer(), "Content-Type", "application/json")
	req.URL.Scheme = "https"
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	return answer{Status: resp.StatusCode, Proto: resp.Proto, Header: resp.Header}, resp.Body.Close()
}

// handshake connects to the HTTP port and returns its certificate's serial
// number.
func (r *rig) handshake(t testing.TB, config *tls.Config) (serial int64, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", r.HTTP)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func dialTLS(t testing.TB, addr string, config *tls.Config) *grpc.ClientConn {
	t.Helper()
	return dial(t, addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
}

// authority is a certificate authority of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its own certificate
}

// certPair are the files of a certificate and its key.
type certPair struct{ cert, key string }

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	a.must(err)
	a.cert, err = x509.ParseCertificate(der)
	a.must(err)
	a.file = filepath.Join(t.TempDir(), "ca.pem")
	a.write(a.file, "CERTIFICATE", der)
	return a
}

// issue makes a certificate for 127.0.0.1, for servers and clients.
func (a *authority) issue(name string, serial int64) certPair {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	a.must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	dir := a.t.TempDir()
	pair := certPair{filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")}
	a.write(pair.cert, "CERTIFICATE", der)
	a.write(pair.key, "PRIVATE KEY", keyDER)
	return pair
}

func (a *authority) write(file, kind string, der []byte) {
	a.must(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (a *authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// client trusts the authority, and has no certificate.
func (a *authority) client() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

func (p certPair) load(t testing.TB) tls.Certificate {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
