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
	defer func() { _ = f.Close() }() // it was only read
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

// checkCertificates checks that a PEM file holds certificates, and nothing else in their place.
func checkCertificates(path string) error {
	data, err := readFile(path, maxPEMFile)
	if err != nil {
		return err
	}
	count := 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		count++
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("certificate %d of the file: %w", count, err)
		}
	}
	if count == 0 {
		return errors.New("the file holds no PEM certificate")
	}
	return nil
}

// readKeyPair checks that a certificate and its key belong together, and gives
// when the certificate ends. Which error it is tells which of the two files it is about.
func readKeyPair(certFile, keyFile string) (end time.Time, certErr, keyErr error) {
	certPEM, certErr := readFile(certFile, maxPEMFile)
	keyPEM, keyErr := readFile(keyFile, maxPEMFile)
	if certErr != nil || keyErr != nil {
		return end, certErr, keyErr
	}
	if err := checkCertificates(certFile); err != nil {
		return end, err, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return end, nil, err
	}
	return pair.Leaf.NotAfter, nil, nil
}
