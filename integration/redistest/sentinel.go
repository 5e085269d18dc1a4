package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/integration/process"
)

// MasterName is what sentinels know the master by.
const MasterName = "tokens"

// Sentinels is a master with two replicas, and three sentinels that watch over
// them with short time-outs: a master that does not answer for 500 ms is taken
// for down.
type Sentinels struct {
	// Addrs are the sentinels' host:port.
	Addrs []string
	// Servers are the master at the start and its replicas.
	Servers []*Server

	tb testing.TB
}

// StartSentinels starts them, and waits until each sentinel knows all of them.
func StartSentinels(tb testing.TB, o Options) *Sentinels {
	tb.Helper()
	s := &Sentinels{tb: tb}
	master := Start(tb, o)
	s.Servers = append(s.Servers, master)
	for range 2 {
		replica := o
		replica.Args = append([]string{"--replicaof", "127.0.0.1 " + master.port(), "--repl-diskless-sync-delay", "0"}, o.Args...)
		s.Servers = append(s.Servers, Start(tb, replica))
	}
	const sentinels = 3
	for range sentinels {
		s.Addrs = append(s.Addrs, startSentinel(tb, master.port()))
	}
	for _, addr := range s.Addrs {
		await(tb, "the sentinel at "+addr, func() error { return s.knowsAll(addr, sentinels) })
	}
	return s
}

func startSentinel(tb testing.TB, masterPort string) (addr string) {
	tb.Helper()
	sentinel := &Server{tb: tb, program: programPath(tb)}
	_, _ = process.StartOnPorts(tb, 1, func(ports []int) (*process.Process, error) {
		dir := tb.TempDir()
		file := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf(`bind 127.0.0.1
port %d
dir %s
sentinel monitor %[3]s 127.0.0.1 %[4]s 2
sentinel down-after-milliseconds %[3]s 500
sentinel failover-timeout %[3]s 3000
`, ports[0], dir, MasterName, masterPort)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		sentinel.Addr = process.Loopback(ports[0])
		sentinel.args = []string{file, "--sentinel"}
		return sentinel.start()
	})
	return sentinel.Addr
}

func (s *Sentinels) knowsAll(addr string, sentinels int) error {
	sc := redis.NewSentinelClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	defer func() { _ = sc.Close() }()
	replicas, err := sc.Replicas(s.tb.Context(), MasterName).Result()
	if err != nil {
		return err
	}
	linked := 0
	for _, r := range replicas {
		if r["master-link-status"] == "ok" && !strings.Contains(r["flags"], "down") {
			linked++
		}
	}
	others, err := sc.Sentinels(s.tb.Context(), MasterName).Result()
	if err != nil {
		return err
	}
	if linked != len(s.Servers)-1 || len(others) != sentinels-1 {
		return fmt.Errorf("it knows %d replicas and %d other sentinels", linked, len(others))
	}
	return nil
}

// Master is the server that the first sentinel names as master.
func (s *Sentinels) Master() *Server {
	s.tb.Helper()
	sc := redis.NewSentinelClient(&redis.Options{Addr: s.Addrs[0], Protocol: 2, DisableIdentity: true})
	defer func() { _ = sc.Close() }()
	at, err := sc.GetMasterAddrByName(s.tb.Context(), MasterName).Result()
	if err != nil || len(at) != 2 {
		s.tb.Fatalf("asking for the master: %v, %v", at, err)
	}
	for _, server := range s.Servers {
		if server.Addr == net.JoinHostPort(at[0], at[1]) {
			return server
		}
	}
	s.tb.Fatalf("the sentinel names a master at %v", at)
	return nil
}

// AwaitMasterOtherThan waits until the sentinels have put another in its place.
func (s *Sentinels) AwaitMasterOtherThan(old *Server) (master *Server) {
	s.tb.Helper()
	await(s.tb, "the failover", func() error {
		if master = s.Master(); master == old {
			return fmt.Errorf("the master is still at %s", old.Addr)
		}
		return nil
	})
	return master
}
