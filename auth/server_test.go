package auth

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/rpcgate/rpcgate/config"
)

func TestMain(m *testing.M) {
	RouteRedisLog(slog.New(slog.DiscardHandler))
	// go-redis looks once a second whether a dead server is back, and sees only
	// then that its client was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// limit is how long a test waits for what must come, on the busiest machine.
const limit = time.Minute

// eventually waits for cond.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come within %s", what, limit)
		}
	}
}

// redisServer is a redis-server process on loopback, which keeps nothing on
// disk. Without the program the tests fail: what they are about is Redis.
type redisServer struct {
	t    *testing.T
	addr string
	conf string // a configuration file, if it needs one
	args []string
	cmd  *exec.Cmd
	out  *lockedBuffer
}

func startRedis(t *testing.T, args ...string) *redisServer {
	t.Helper()
	s := &redisServer{t: t, args: args}
	t.Cleanup(s.kill)
	// Another process may take the port between its choice and its use.
	for range 5 {
		if s.addr = freeAddr(t); s.start() {
			return s
		}
		s.kill()
	}
	t.Fatalf("redis-server does not start: %s", s.out)
	return nil
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// start runs the process and waits until it answers.
func (s *redisServer) start() bool {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	s.out = &lockedBuffer{}
	args := []string{"--port", port, "--bind", "127.0.0.1", "--dir", s.t.TempDir()}
	if s.conf != "" {
		args = append([]string{s.conf}, args...)
	} else {
		args = append(args, "--save", "", "--appendonly", "no")
	}
	args = append(args, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("these tests need redis-server: %v", err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); <-tick.C {
		if c, err := net.Dial("tcp", s.addr); err == nil {
			_, _ = c.Write([]byte("PING\r\n"))
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			b := make([]byte, 5)
			_, err = io.ReadFull(c, b)
			_ = c.Close()
			if err == nil && (string(b) == "+PONG" || string(b) == "-NOAU") {
				return s.running()
			}
		}
		if !s.running() {
			return false
		}
	}
	return false
}

// running tells whether the process has not exited, by what it printed: a port
// that is taken makes it exit at once.
func (s *redisServer) running() bool { return !strings.Contains(s.out.String(), "bind: Address") }

// kill ends the process as a crash would.
func (s *redisServer) kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// restart brings it back, empty, at the same address.
func (s *redisServer) restart() {
	s.t.Helper()
	if !s.start() {
		s.t.Fatalf("redis-server does not restart: %s", s.out)
	}
}

// pause stops the process: the kernel still accepts connections for it, and
// nothing answers.
func (s *redisServer) pause()  { s.signal(syscall.SIGSTOP) }
func (s *redisServer) resume() { s.signal(syscall.SIGCONT) }

func (s *redisServer) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// client is one as the gateway has it, but patient: the machine may be busy.
func (s *redisServer) client(edit ...func(*config.Redis)) redis.UniversalClient {
	s.t.Helper()
	cfg := config.Redis{
		Addresses: []string{s.addr}, Mode: "single", PoolSize: 20,
		DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit,
	}
	for _, f := range edit {
		f(&cfg)
	}
	return open(s.t, cfg)
}

func open(t *testing.T, cfg config.Redis) redis.UniversalClient {
	t.Helper()
	rdb, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// calls is how often the server was given a command.
func (s *redisServer) calls(rdb redis.UniversalClient, command string) int {
	s.t.Helper()
	stats, err := rdb.Info(s.t.Context(), "commandstats").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, found := strings.Cut(stats, "cmdstat_"+command+":calls=")
	if !found {
		return 0
	}
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.Atoi(digits)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// gateway is a verifier whose Run is running, and what it reported.
type gateway struct {
	*Verifier
	mu      sync.Mutex
	revoked []Revocation
	log     *lockedBuffer
}

func startGateway(t *testing.T, rdb redis.UniversalClient, cfg config.Auth) *gateway {
	t.Helper()
	g := newGateway(t, rdb, cfg)
	g.run(t)
	return g
}

// run runs the gateway's Run until the end of the test.
func (g *gateway) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func newGateway(t *testing.T, rdb redis.UniversalClient, cfg config.Auth) *gateway {
	t.Helper()
	g := &gateway{log: &lockedBuffer{}}
	cfg.Cache.LoadTimeout = cmp.Or(cfg.Cache.LoadTimeout, limit)
	var err error
	g.Verifier, err = NewVerifier(rdb, cfg, VerifierOptions{
		Logger: slog.New(slog.NewJSONHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnRevoke: func(r Revocation) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.revoked = append(g.revoked, r)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	g.imported.note(false) // as each finds out first
	return g
}

func (g *gateway) told(r Revocation) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, got := range g.revoked {
		if got == r {
			return true
		}
	}
	return false
}

// hearing waits until the gateway hears revocations.
func (g *gateway) hearing(t *testing.T) {
	t.Helper()
	eventually(t, "the subscription", func() bool { return g.subscribed() })
}

func (v *Verifier) subscribed() bool { return gaugeValue(v.metrics.subscribed) == 1 }

func gaugeValue(g prometheus.Gauge) float64 {
	reg := prometheus.NewRegistry()
	reg.MustRegister(g)
	families, err := reg.Gather()
	if err != nil {
		return -1
	}
	return families[0].GetMetric()[0].GetGauge().GetValue()
}

// lockedBuffer takes output from several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
