package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// certCheckInterval is how often a certificate's files are looked at for a new
// one.
const certCheckInterval = 10 * time.Second

// serverTLS makes a listener's TLS configuration. The certificate is read
// again when it changes on disk, so that a renewed one needs no restart.
func serverTLS(cfg *config.ServerTLS) (*tls.Config, error) {
	cert := &certFile{cert: cfg.CertFile, key: cfg.KeyFile}
	if _, err := cert.get(nil); err != nil {
		return nil, err
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert.get}
	if cfg.ClientCAFile != "" {
		pem, err := os.ReadFile(cfg.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("reading client authorities: %w", err)
		}
		out.ClientCAs = x509.NewCertPool()
		if !out.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("client authorities: no certificate in " + cfg.ClientCAFile)
		}
		out.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return out, nil
}

// certFile is a certificate on disk.
type certFile struct {
	cert, key string

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time // of the certificate's file, when current was read
	checked time.Time
}

// get is a tls.Config.GetCertificate. A new pair that cannot be read, half
// written perhaps, leaves the current one in use.
func (f *certFile) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil && time.Since(f.checked) < certCheckInterval {
		return f.current, nil
	}
	f.checked = time.Now()
	info, err := os.Stat(f.cert)
	if err == nil && f.current != nil && info.ModTime().Equal(f.changed) {
		return f.current, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(f.cert, f.key); err == nil {
			f.current, f.changed = &pair, info.ModTime()
			return f.current, nil
		}
	}
	if f.current != nil {
		return f.current, nil
	}
	return nil, fmt.Errorf("reading the certificate: %w", err)
}
