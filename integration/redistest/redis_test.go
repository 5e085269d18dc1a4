package redistest_test

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/redistest"
)

// ask sends inline commands on a new connection and returns the first line of
// each answer.
func ask(addr string, commands ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(strings.Join(commands, "\r\n") + "\r\n")); err != nil {
		return "", err
	}
	answers := make([]string, len(commands))
	read := bufio.NewReader(conn)
	for i := range answers {
		line, err := read.ReadString('\n')
		if err != nil {
			return "", err
		}
		answers[i] = strings.TrimSpace(line)
	}
	return strings.Join(answers, " "), nil
}

func expect(t *testing.T, addr, want string, commands ...string) {
	t.Helper()
	got, err := ask(addr, commands...)
	if err != nil || got != want {
		t.Fatalf("%q: %q, %v; want %q", commands, got, err, want)
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Options{})
	expect(t, s.Addr, "+OK", "SET k v")

	s.Pause()
	if got, err := ask(s.Addr, "PING"); err == nil {
		t.Fatalf("a paused server answers %q", got)
	}
	s.Resume()
	expect(t, s.Addr, ":1", "EXISTS k")

	s.Kill()
	if got, err := ask(s.Addr, "PING"); err == nil {
		t.Fatalf("a killed server answers %q", got)
	}
	s.Restart()
	expect(t, s.Addr, ":0", "EXISTS k")
}

func TestPersist(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Options{Persist: true, Args: []string{"--requirepass", "pw"}})
	expect(t, s.Addr, "+OK +OK", "AUTH pw", "SET k v")
	s.Restart()
	expect(t, s.Addr, "+OK :1", "AUTH pw", "EXISTS k")
}

func TestSentinelsFailOver(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.Options{})
	old := s.Master()
	if old != s.Servers[0] {
		t.Fatalf("the master is at %s", old.Addr)
	}
	old.Kill()
	next := s.AwaitMasterOtherThan(old)
	expect(t, next.Addr, "+OK", "SET k v")
}

func TestClusterMovesAndFailsOver(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	slot := c.Slot("k")
	home := redistest.Home(slot)
	from, to := c.Masters[home], c.Masters[(home+1)%3]
	expect(t, from.Addr, "+OK", "SET k v")
	stages := 0
	c.Move(slot, from, to, func() { stages++ })
	if stages != 4 {
		t.Errorf("%d stages, want 4", stages)
	}
	expect(t, to.Addr, ":1", "EXISTS k")

	gone := (home + 1) % 3
	c.AwaitReplica(gone)
	to.Kill()
	c.AwaitFailover(gone)
	expect(t, c.Replicas[gone].Addr, ":1", "EXISTS k")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	s, addr := redistest.StartTLS(t, a, a.Issue("redis"), redistest.Options{})
	if _, err := ask(addr, "PING"); err == nil {
		t.Error("clear text is answered where TLS is spoken")
	}
	s.UseCertificate(a.Issue("redis-2"))
	expect(t, s.Addr, "+PONG", "PING")
}
