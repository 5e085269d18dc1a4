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
