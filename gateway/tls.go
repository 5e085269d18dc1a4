package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// certCheckInterval is how often a certificate's file is looked at, at most: one
// stat, with a handshake.
const certCheckInterval = time.Second

// serverTLS makes a listener's TLS configuration. The certificate is read
// again when it changes on disk, so that a renewed one needs no restart; log is
// told of one that cannot be used.
func serverTLS(cfg *config.ServerTLS, log *slog.Logger) (*tls.Config, error) {
	cert := &certFile{cert: cfg.CertFile, key: cfg.KeyFile, log: log}
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
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time // of the certificate's file, when current was read
	checked time.Time
	failing bool      // the last attempt to read a new pair failed
	failed  time.Time // of the certificate's file then; zero: there was none
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
	changed, err := f.refresh()
	if err == nil {
		f.failing = false
		return f.current, nil
	}
	err = fmt.Errorf("reading the certificate: %w", err)
	if f.current == nil {
		return nil, err
	}
	if !f.failing || !changed.Equal(f.failed) { // once for each version of the file
		f.log.Warn("the new certificate cannot be used; the old one stays", slog.String("cert_file", f.cert), slog.Any("error", err))
	}
	f.failing, f.failed = true, changed
	return f.current, nil
}

// refresh reads the pair if the certificate's file has changed. It returns when
// that was, zero if there is no telling.
func (f *certFile) refresh() (changed time.Time, err error) {
	info, err := os.Stat(f.cert)
	if err != nil {
		return time.Time{}, err
	}
	if f.current != nil && info.ModTime().Equal(f.changed) {
		return f.changed, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return info.ModTime(), err
	}
	f.current, f.changed = &pair, info.ModTime()
	return f.changed, nil
}
