package integration_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// Callers who open streams and do not read them have little held for them,
// however fast the backend is.
func TestSlowReadersHoldLittle(t *testing.T) {
	t.Parallel()
	const callers, each = 60, 4 << 20
	r, b := newEchoRig(t, "", quiet)
	message := b.Encode("Shapes", `{"text":"`+strings.Repeat("x", 256<<10)+`"}`)
	var sent atomic.Int64
	b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
		for {
			if err := s.Send(message); err != nil {
				return err
			}
			sent.Add(1)
		}
	})
	must(t, r.echoing())
	before := r.footprint(t)
	conns := make([]net.Conn, callers)
	for i := range conns {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", r.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
		if _, err := fmt.Fprintf(conn, "GET /v1/echo:stream HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n\r\n", r.bearer()); err != nil {
			t.Fatal(err)
		}
	}
	last := int64(0)
	gatewaytest.Eventually(t, func() error {
		now := sent.Load()
		defer func() { last = now }()
		if r.footprint(t); sent.Load() != last || last < callers {
			return fmt.Errorf("the backend still sends, %d so far", now)
		}
		return nil
	})
	if now := r.footprint(t); now.heap > before.heap+callers*each {
		t.Errorf("the heap has %.1f MiB, it had %.1f", now.heap/(1<<20), before.heap/(1<<20))
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	r.awaitFootprint(t, before)
}
