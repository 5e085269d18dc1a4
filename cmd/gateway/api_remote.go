package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// operatorVariable has the operator's token where no file is named.
const operatorVariable = "RPCGATE_OPERATOR_TOKEN"

// remoteFlags say where a gateway's admin port is, and who asks.
type remoteFlags struct {
	address string
	operatorFlags
}

func (f *remoteFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "admin", "", "go by a gateway's admin port: its `ADDRESS`, host:port or https://host:port")
	f.operatorFlags.add(cmd)
}

func (f *remoteFlags) given() bool { return f.address != "" }

// operatorFlags say who asks a gateway's admin port, and how it is to be trusted.
type operatorFlags struct {
	tokenFile                 string
	caFile, certFile, keyFile string
	serverName                string
}

func (f *operatorFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tokenFile, "operator-token-file", "", "`FILE` with the operator's token; default: the environment's "+operatorVariable)
	f.addTrust(cmd)
}

// addTrust adds the flags without which nobody is known as an operator.
func (f *operatorFlags) addTrust(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.caFile, "ca-file", "", "`FILE` with the authorities of the admin port's certificate; with it, TLS is spoken")
	cmd.Flags().StringVar(&f.certFile, "cert-file", "", "`FILE` with the operator's certificate")
	cmd.Flags().StringVar(&f.keyFile, "key-file", "", "`FILE` with its key")
	cmd.Flags().StringVar(&f.serverName, "server-name", "", "the `NAME` in the admin port's certificate, where it is not the host's")
}

// token is the operator's; empty: none is known.
func (f *operatorFlags) token() (string, error) {
	if f.tokenFile == "" {
		return strings.TrimSpace(os.Getenv(operatorVariable)), nil
	}
	file, err := os.Open(f.tokenFile)
	if err != nil {
		return "", fmt.Errorf("the operator's token: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxTokenFile))
	if err != nil {
		return "", fmt.Errorf("the operator's token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("the operator's token: %s has not one word", f.tokenFile)
	}
	return token, nil
}

// maxTokenFile bounds a file, or an input, with one token.
const maxTokenFile = 4 << 10

// where takes an admin address apart: TLS is spoken to an https:// one, and
// wherever there are authorities or a certificate of one's own.
func (f *operatorFlags) where(address string) (hostPort string, config *tls.Config, err error) {
	hostPort, secure := strings.CutPrefix(address, "https://")
	if !secure {
		hostPort = strings.TrimPrefix(hostPort, "http://")
	}
	hostPort = strings.TrimSuffix(hostPort, "/")
	if err := needAddress("admin", hostPort); err != nil {
		return "", nil, err
	}
	if !secure && f.caFile == "" && f.certFile == "" {
		return hostPort, nil, nil
	}
	config = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.serverName}
	if f.serverName == "" {
		config.ServerName, _, _ = net.SplitHostPort(hostPort)
	}
	if f.caFile != "" {
		pem, err := os.ReadFile(f.caFile)
		if err != nil {
			return "", nil, fmt.Errorf("--ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return "", nil, fmt.Errorf("--ca-file: no certificate in %s", f.caFile)
		}
	}
	if (f.certFile == "") != (f.keyFile == "") {
		return "", nil, usagef("--cert-file and --key-file go together")
	}
	if f.certFile != "" {
		pair, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
		if err != nil {
			return "", nil, fmt.Errorf("--cert-file: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return hostPort, config, nil
}

// dial makes a connection to the admin port. Nothing is connected to yet.
func (f *remoteFlags) dial() (*grpc.ClientConn, error) {
	address, config, err := f.where(f.address)
	if err != nil {
		return nil, err
	}
	token, err := f.token()
	if err != nil {
		return nil, err
	}
	if token == "" && f.certFile == "" {
		return nil, usagef("say who asks: --operator-token-file, %s, or --cert-file", operatorVariable)
	}
	creds := insecure.NewCredentials()
	if config != nil {
		creds = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(creds), grpc.WithNoProxy()}
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, errors.Join(errors.New("asking the gateway"), err)
	}
	return conn, nil
}

// bearer is a token as a call's credential. In clear text it goes where the
// operator has said, as it does by curl.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (b bearer) RequireTransportSecurity() bool { return false }

// String keeps it out of texts.
func (b bearer) String() string { return "[redacted]" }
