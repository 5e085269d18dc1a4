package gateway

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A certificate that cannot be used is told of once for each version of its
// file, however many handshakes come, and the one before stays in use.
func TestFaultyCertificateIsToldOfOnce(t *testing.T) {
	t.Parallel()
	certPEM, keyPEM := somePair(t)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		dir := t.TempDir()
		f := &certFile{
			cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"),
			log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		version := time.Now()
		write := func(data []byte) {
			version = version.Add(time.Minute)
			if err := os.WriteFile(f.cert, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(f.cert, version, version); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(f.key, keyPEM, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.get(nil); err == nil {
			t.Fatal("there is no certificate yet, and no error")
		}
		write(certPEM)
		for _, step := range []struct {
			what   string
			change func()
			told   int // warnings
		}{
			{"at first", func() {}, 0},
			{"half written", func() { write(certPEM[:40]) }, 1},
			{"half written again", func() { write(certPEM[:50]) }, 1},
			{"gone", func() { _ = os.Remove(f.cert) }, 1},
			{"mended", func() { write(certPEM) }, 0},
			{"gone once more", func() { _ = os.Remove(f.cert) }, 1},
		} {
			log.Reset()
			step.change()
			for range 5 {
				time.Sleep(certCheckInterval)
				if pair, err := f.get(nil); err != nil || pair == nil {
					t.Fatalf("%s: %v, %v", step.what, pair, err)
				}
			}
			if told := bytes.Count(log.Bytes(), []byte("level=WARN")); told != step.told {
				t.Errorf("%s: told of %d times, want %d: %s", step.what, told, step.told, &log)
			}
		}
	})
}

// somePair returns the PEM of some certificate and its key.
func somePair(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	pair := srv.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
}
