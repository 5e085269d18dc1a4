package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Bounds of the files that a configuration names, in bytes.
const (
	maxSecretFile = 64 << 10
	maxPEMFile    = 4 << 20
)

// readFile reads a regular file of a bounded size. Its errors do not repeat the path.
func readFile(path string, limit int64) ([]byte, error) {
	if err := checkFile(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, pathless(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, pathless(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("the file is larger than %v", Size(limit))
	}
	return data, nil
}

// checkFile tells whether a path is that of a regular file. A pipe or a device
// could block, or never end.
func checkFile(path string) error {
	switch info, err := os.Stat(path); {
	case err != nil:
		return pathless(err)
	case info.IsDir():
		return errors.New("is a folder, not a file")
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	}
	return nil
}

func checkFolder(path string) error {
	switch info, err := os.Stat(path); {
	case err != nil:
		return pathless(err)
	case !info.IsDir():
		return errors.New("is not a folder")
	}
	return nil
}

// pathless takes the path out of a file error: it may hold a secret that was
// meant for another key.
func pathless(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// readSecretFile reads a secret, less the line end that editors and echo put behind it.
func readSecretFile(path string) (string, error) {
	data, err := readFile(path, maxSecretFile)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if secret == "" {
		return "", errors.New("the file is empty")
	}
	return secret, nil
}

// readAuthorities checks a PEM file of certificate authorities, and gives its certificates.
func readAuthorities(path string) ([]*x509.Certificate, error) {
	data, err := readFile(path, maxPEMFile)
	if err != nil {
		return nil, err
	}
	var certificates []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d of the file: %w", len(certificates)+1, err)
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("the file holds no PEM certificate")
	}
	return certificates, nil
}

// readKeyPair checks that a certificate and its key belong together, and gives
// when the certificate ends. The error tells which of the two files it is about.
func readKeyPair(certFile, keyFile string) (end time.Time, certErr, keyErr error) {
	certPEM, certErr := readFile(certFile, maxPEMFile)
	keyPEM, keyErr := readFile(keyFile, maxPEMFile)
	if certErr != nil || keyErr != nil {
		return end, certErr, keyErr
	}
	if _, err := readAuthorities(certFile); err != nil {
		return end, err, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return end, nil, err
	}
	return pair.Leaf.NotAfter, nil, nil
}
