// Package etcdtest runs a real etcd server for a test, built from this
// repository's tools/etcd module, so that nothing has to be installed.
package etcdtest

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rpcgate/rpcgate/integration/process"
	"github.com/rpcgate/rpcgate/integration/toolbuild"
)

// Server is a cluster of one member on ports of the loopback interface. It ends
// with the test. Its methods are for one goroutine at a time.
type Server struct {
	// Endpoint is its client host:port; it stays the same over restarts.
	Endpoint string

	tb      testing.TB
	health  string // the URL that its health is asked at
	program string
	args    []string
	dataDir string
	process *process.Process
}

// Start starts an empty server, building it first if need be, and waits until
// it has a leader. args are further arguments of etcd.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return start(tb, "http://", args)
}

// TLS are the files of a server that speaks TLS, and believes the clients alone
// whose certificate the CA has signed.
type TLS struct{ CertFile, KeyFile, CAFile string }

// StartTLS is Start of a server that speaks TLS to its clients.
func StartTLS(tb testing.TB, files TLS, args ...string) *Server {
	tb.Helper()
	return start(tb, "https://", append([]string{
		"--cert-file", files.CertFile, "--key-file", files.KeyFile,
		"--trusted-ca-file", files.CAFile, "--client-cert-auth",
	}, args...))
}

func start(tb testing.TB, scheme string, args []string) *Server {
	tb.Helper()
	s := &Server{tb: tb, program: toolbuild.Program(tb, "etcd", "."), dataDir: tb.TempDir()}
	s.process, _ = process.StartOnPorts(tb, 3, func(ports []int) (*process.Process, error) {
		s.Endpoint = process.Loopback(ports[0])
		s.health = "http://" + process.Loopback(ports[2])
		peer := "http://" + process.Loopback(ports[1])
		s.args = arguments("test", scheme+s.Endpoint, peer, "test="+peer)
		s.args = append(s.args, "--listen-metrics-urls", s.health)
		s.args = append(s.args, args...)
		return s.start()
	})
	return s
}

// arguments are those of a member with its URLs for clients and peers.
func arguments(name, client, peer, cluster string) []string {
	return []string{
		"--name", name,
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", cluster,
		"--unsafe-no-fsync", "--log-level", "error",
	}
}

func (s *Server) start() (*process.Process, error) {
	p := s.launch()
	return p, p.AwaitReady(s.healthy)
}

func (s *Server) launch() *process.Process {
	return process.Start(s.tb, s.program, append([]string{"--data-dir", s.dataDir}, s.args...)...)
}

// Kill ends the server as a crash does.
func (s *Server) Kill() { s.process.Kill() }

// Pause stops the server where it is: connections stay open, nothing answers.
func (s *Server) Pause() { s.process.Pause() }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.process.Resume() }

// Restart kills the server, if it still runs, and starts it again with its data.
func (s *Server) Restart() {
	s.tb.Helper()
	s.process.Kill()
	p, err := s.start()
	if err != nil {
		s.tb.Fatal(err)
	}
	s.process = p
}

// RestartEmpty is Restart on a disk that lost everything.
func (s *Server) RestartEmpty() {
	s.tb.Helper()
	s.process.Kill()
	s.dataDir = s.tb.TempDir()
	s.Restart()
}

// Client returns a client that is closed at the end of the test.
func (s *Server) Client() *clientv3.Client {
	s.tb.Helper()
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		s.tb.Fatalf("etcd client: %v", err)
	}
	s.tb.Cleanup(func() { _ = cli.Close() })
	return cli
}

// healthy asks what etcd's own health check asks.
func (s *Server) healthy() error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	question, err := http.NewRequestWithContext(s.tb.Context(), http.MethodGet, s.health+"/health", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(question)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd's health: %s", answer.Status)
	}
	return nil
}
