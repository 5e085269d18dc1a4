package integration_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// Backends behind gRPC's own resolvers, with their descriptors by reflection
// over the same way.
func TestTargets(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	_, port, err := net.SplitHostPort(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	socket := unixSocket(t, b.Addr)
	for name, target := range map[string]string{
		"unix":          "unix:" + socket,
		"unix with ///": "unix://" + socket,
		"dns":           "dns:///localhost:" + port,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fmt.Sprintf("backends:\n  - {name: echo, target: %q, reflection: true, default_binding: true}\n", target))
			r.call(t, "POST", "/testbackend.Echo/Unary", "{}").ok(t, "")
			if _, err := invoke(r.limited(t), r.conn, "/testbackend.Echo/Unary", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// unixSocket makes a socket that leads to the TCP address to.
func unixSocket(t *testing.T, to string) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rpcgate") // a socket's path has a limit that t.TempDir can exceed
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "backend.sock")
	var config net.ListenConfig
	lis, err := config.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var carried sync.WaitGroup
	carried.Go(func() {
		for {
			in, err := lis.Accept()
			if err != nil {
				return
			}
			carried.Go(func() { carry(in, to) })
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		carried.Wait()
		_ = os.RemoveAll(dir)
	})
	return path
}

// carry copies both ways until either side closes.
func carry(in net.Conn, to string) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(in, out)
		_ = in.Close()
	})
	_, _ = io.Copy(out, in)
	_ = out.Close()
	back.Wait()
}
