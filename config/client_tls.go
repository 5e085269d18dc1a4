package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Load reads the files that c names and makes a TLS configuration of it. A nil
// c, for clear text, gives nil. Our own certificate is read again for each
// handshake, so that a renewed one needs no restart.
func (c *ClientTLS) Load() (*tls.Config, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // no TLS is an answer
	}
	out := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.ServerName,
		InsecureSkipVerify: c.InsecureSkipVerify, //nolint:gosec // asked for by name, for trying out
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading tls.ca_file: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file %s holds no certificate in PEM", c.CAFile)
		}
	}
	if c.CertFile != "" || c.KeyFile != "" {
		if _, err := c.certificate(); err != nil {
			return nil, err
		}
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.certificate() }
	}
	return out, nil
}

func (c *ClientTLS) certificate() (*tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading tls.cert_file and tls.key_file: %w", err)
	}
	return &cert, nil
}
