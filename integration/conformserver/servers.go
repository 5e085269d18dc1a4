package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rpcgate/rpcgate/integration/process"
)

// startLimit and stopLimit bound how long a server may take to be ready, and to
// end when it is asked to.
const (
	startLimit = 60 * time.Second
	stopLimit  = 4 * time.Second // the suite kills this process a second later
)

// server is a running process.
type server struct {
	cmd  *exec.Cmd
	log  string        // the file that it writes to; empty: none
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

// start starts a process that ends with this one.
func start(cmd *exec.Cmd) (*server, error) {
	cmd.SysProcAttr = process.DieWithParent()
	s := &server{cmd: cmd, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		s.err = cmd.Wait()
		close(s.done)
	}()
	return s, nil
}

// stop asks the server to end, and kills it if it takes longer than the suite
// waits. The error is how it ended, or what its log has of panics and data
// races.
func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-s.done:
	case <-limit.C:
		_ = s.cmd.Process.Kill()
		<-s.done
		return s.faults()
	}
	return errors.Join(s.err, s.faults())
}

// faults returns the server's log as an error if it has a fault of its own.
func (s *server) faults() error {
	if s.log == "" {
		return nil
	}
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err
	}
	for _, fault := range []string{"DATA RACE", "panic"} {
		if bytes.Contains(text, []byte(fault)) {
			return fmt.Errorf("%s logged a %s:\n%s", filepath.Base(s.cmd.Path), fault, text)
		}
	}
	return nil
}

// startBackend starts a server of the suite and returns its host:port.
func startBackend(program string, req request) (*server, string, error) {
	var in bytes.Buffer
	if err := writeFrame(&in, backendRequest(req.limit)); err != nil {
		return nil, "", err
	}
	out, into, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, into, os.Stderr
	s, err := start(cmd)
	_ = into.Close() // the process has its own; when it ends, so does the reading
	if err != nil {
		return nil, "", err
	}
	answer, err := readFrame(out)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("%s: %w", program, err), s.stop())
	}
	port, err := responsePort(answer)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("%s: %w", program, err), s.stop())
	}
	return s, net.JoinHostPort("127.0.0.1", strconv.FormatUint(port, 10)), nil
}

// ports are where a gateway listens.
type ports struct{ http, grpc uint64 }

// startGateway starts a gateway before the backend and waits until it serves.
func startGateway(ctx context.Context, o options, req request, backend string) (*server, ports, error) {
	dir, err := os.MkdirTemp(o.dir, "gateway-")
	if err != nil {
		return nil, ports{}, err
	}
	file, err := writeConfig(dir, o.protos, req, backend)
	if err != nil {
		return nil, ports{}, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, ports{}, err
	}
	defer func() { _ = log.Close() }() // the process has its own
	cmd := exec.Command(o.gateway, "serve", "-c", file)
	cmd.Stdout, cmd.Stderr = log, log
	s, err := start(cmd)
	if err != nil {
		return nil, ports{}, err
	}
	s.log = log.Name()
	at, err := awaitServing(ctx, s, log.Name())
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		return nil, ports{}, errors.Join(fmt.Errorf("the gateway does not serve: %w\n%s", err, text), s.stop())
	}
	return s, at, nil
}

func awaitServing(ctx context.Context, s *server, log string) (ports, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		if at, ok := servingPorts(log); ok {
			return at, nil
		}
		select {
		case <-poll.C:
		case <-s.done:
			return ports{}, fmt.Errorf("it ended: %w", s.err)
		case <-ctx.Done():
			return ports{}, ctx.Err()
		}
	}
}

// servingPorts looks for the line in which the gateway tells where it serves.
func servingPorts(log string) (ports, bool) {
	text, err := os.ReadFile(log)
	if err != nil {
		return ports{}, false
	}
	for line := range strings.Lines(string(text)) {
		var at struct{ Msg, HTTP, GRPC string }
		if json.Unmarshal([]byte(line), &at) == nil && at.Msg == "serving" {
			return ports{portOf(at.HTTP), portOf(at.GRPC)}, true
		}
	}
	return ports{}, false
}

func portOf(addr string) uint64 {
	_, text, _ := net.SplitHostPort(addr)
	port, _ := strconv.ParseUint(text, 10, 16)
	return port
}

// writeConfig writes the gateway's config into dir and returns the file. All
// routes are open, as the suite's client sends no credential, and nothing is
// between a call and its answer that would depend on the calls before.
func writeConfig(dir, protos string, req request, backend string) (string, error) {
	var tls string
	if req.useTLS {
		cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		if err := errors.Join(os.WriteFile(cert, req.cert, 0o600), os.WriteFile(key, req.key, 0o600)); err != nil {
			return "", err
		}
		tls = fmt.Sprintf(", tls: {cert_file: %q, key_file: %q", cert, key)
		if len(req.clientCert) > 0 {
			ca := filepath.Join(dir, "client-ca.pem")
			if err := os.WriteFile(ca, req.clientCert, 0o600); err != nil {
				return "", err
			}
			tls += fmt.Sprintf(", client_ca_file: %q", ca)
		}
		tls += "}"
	}
	limit := req.limit
	if limit == 0 {
		limit = 16 << 20
	}
	var b strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	line(`http: {address: "127.0.0.1:0", max_body_size: %d%s}`, limit, tls)
	line(`grpc: {address: "127.0.0.1:0", max_message_size: %d%s}`, limit, tls)
	line(`admin: {address: "127.0.0.1:0"}`)
	line(`redis: {addresses: ["127.0.0.1:1"]}`) // nobody is asked
	line(`error_info: false`)                   // the suite takes details that it did not ask for as faults
	line(`shutdown: {delay: 0s, drain_timeout: 500ms}`)
	line(`backends:`)
	line(`  - name: conformance`)
	line(`    endpoints: [%q]`, backend)
	line(`    proto: {files: [connectrpc/conformance/v1/service.proto], import_paths: [%q]}`, protos)
	line(`    auth: none`)
	line(`    timeout: 0s`)
	line(`    breaker: {kind: "off"}`)
	file := filepath.Join(dir, "gateway.yaml")
	return file, os.WriteFile(file, []byte(b.String()), 0o600)
}
