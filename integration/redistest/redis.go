// Package redistest runs a real redis-server for a test.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/integration/process"
)

// Options of a server. The zero value keeps nothing on disk.
type Options struct {
	// Keep the data over Kill and Restart.
	Persist bool
	// Further arguments of redis-server, such as "--requirepass", "secret".
	Args []string
}

// Server is a redis-server on a port of the loopback interface. It ends with
// the test. Its methods are for one goroutine at a time.
type Server struct {
	// Addr is its host:port; it stays the same over Restart.
	Addr string

	tb      testing.TB
	program string
	args    []string
	process *process.Process
}

// Start starts a server and waits until it answers. A machine without
// redis-server fails the test: what is not tested must not look tested.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	s := &Server{tb: tb, program: programPath(tb)}
	s.process, _ = process.StartOnPorts(tb, 1, func(ports []int) (*process.Process, error) {
		s.Addr = process.Loopback(ports[0])
		s.args = append([]string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(ports[0]), "--dir", tb.TempDir(), "--save", "",
		}, o.Args...)
		if o.Persist {
			s.args = append(s.args, "--appendonly", "yes", "--appendfsync", "always")
		}
		return s.start()
	})
	return s
}

func programPath(tb testing.TB) string {
	tb.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatal("redis-server is not installed; the tests need it (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis)")
	}
	return program
}

// Client speaks to the server itself, patiently.
func (s *Server) Client() *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, ReadTimeout: limit})
	s.tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Do gives the server one command, as redis-cli does.
func (s *Server) Do(args ...any) string {
	s.tb.Helper()
	answer, err := s.Client().Do(s.tb.Context(), args...).Text()
	if err != nil {
		s.tb.Fatalf("%v at %s: %v", args, s.Addr, err)
	}
	return answer
}

// Size is how many keys it has.
func (s *Server) Size() int64 {
	s.tb.Helper()
	n, err := s.Client().DBSize(s.tb.Context()).Result()
	if err != nil {
		s.tb.Fatal(err)
	}
	return n
}

// Replicate has another server hold what this one holds, and follow it.
func (s *Server) Replicate(replica *Server) {
	s.tb.Helper()
	s.Do("CONFIG", "SET", "repl-diskless-sync-delay", 0)
	replica.Do("REPLICAOF", "127.0.0.1", s.port())
	await(s.tb, "the replica", func() error {
		if text := replica.Do("INFO", "replication"); !strings.Contains(text, "master_link_status:up") {
			return fmt.Errorf("%s is not a replica yet", replica.Addr)
		}
		return nil
	})
}

func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

func (s *Server) start() (*process.Process, error) {
	p := process.Start(s.tb, s.program, s.args...)
	return p, p.AwaitReady(s.ping)
}

// Kill ends the server as a crash does.
func (s *Server) Kill() { s.process.Kill() }

// Pause stops the server where it is: connections stay open, nothing answers.
func (s *Server) Pause() { s.process.Pause() }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.process.Resume() }

// Restart kills the server, if it still runs, and starts it again on the same
// port: empty, unless it persists.
func (s *Server) Restart() {
	s.tb.Helper()
	s.process.Kill()
	p, err := s.start()
	if err != nil {
		s.tb.Fatal(err)
	}
	s.process = p
}

// ping reports whether the server takes commands; refusing one for want of a
// password is an answer too.
func (s *Server) ping() error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(s.tb.Context(), "tcp", s.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if strings.HasPrefix(answer, "+PONG") || strings.HasPrefix(answer, "-NOAUTH") {
		return nil
	}
	return fmt.Errorf("redis answers %q", answer)
}

// Context is the test's.
func (s *Server) Context() context.Context { return s.tb.Context() }
