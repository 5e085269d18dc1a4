package main

import (
	"context"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A listener that breaks ends the gateway, also while it is registered, or tries
// to be, in etcd.
func TestServeEndsWithItsListener(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(`
http: {address: 127.0.0.1:0}
grpc: {address: 127.0.0.1:0}
admin: {address: 127.0.0.1:0}
redis: {addresses: [127.0.0.1:1]}
etcd: {endpoints: [127.0.0.1:1]}
register: {key: edge.rpc, advertise: 127.0.0.1:9090}
shutdown: {delay: 0s}
backends:
  - {name: down, endpoints: [127.0.0.1:1], reflection: true}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	log, w := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- runHere(ctx, io.Discard, w, "serve", "-c", file)
		_ = w.Close()
	}()
	for dec := json.NewDecoder(log); ; {
		var line struct{ Msg, HTTP string }
		if err := dec.Decode(&line); err != nil {
			break
		}
		if line.Msg == "serving" {
			breakListener(t, netip.MustParseAddrPort(line.HTTP))
		}
	}
	if got := <-status; got == exitOK || ctx.Err() != nil {
		t.Errorf("exit status %d, %v", got, ctx.Err())
	}
}

// breakListener makes accept fail on the socket of this process that listens at
// addr.
func breakListener(t *testing.T, addr netip.AddrPort) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		at, err := syscall.Getsockname(fd)
		if err != nil {
			continue // not a socket
		}
		if in, ok := at.(*syscall.SockaddrInet4); !ok || netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)) != addr {
			continue
		}
		// A connection of the listener has its address too.
		if listens, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN); err != nil || listens == 0 {
			continue
		}
		if err := syscall.Shutdown(fd, syscall.SHUT_RDWR); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("nothing listens at %v", addr)
}
