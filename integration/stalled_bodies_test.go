package integration_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

// Callers who send a few compressed bytes that become many, and then stop in the
// middle of their body, hold what they sent and no more.
func TestStalledCompressedBodiesHoldLittle(t *testing.T) {
	t.Parallel()
	const (
		callers = 100
		size    = 3 << 20 // of 4 MiB that are allowed
	)
	r, _ := newEchoRig(t, "", quiet)
	must(t, r.echoing())
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(bytes.Repeat([]byte(" "), size))
	_ = z.Flush()
	encoder, err := zstd.NewWriter(nil, zstd.WithWindowSize(8<<20))
	if err != nil {
		t.Fatal(err)
	}
	for encoding, begun := range map[string][]byte{
		"gzip": zipped.Bytes(), "zstd": encoder.EncodeAll(bytes.Repeat([]byte(" "), size), nil),
	} {
		before := r.footprint(t)
		conns := make([]net.Conn, callers)
		for i := range conns {
			var dialer net.Dialer
			if conns[i], err = dialer.DialContext(t.Context(), "tcp", r.HTTP); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(conns[i], "POST /v1/echo HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Encoding: %s\r\nContent-Length: 100000\r\n\r\n%s",
				r.bearer(), encoding, begun); err != nil {
				t.Fatal(err)
			}
		}
		gatewaytest.Eventually(t, func() error {
			if now := r.footprint(t).goroutines; now < before.goroutines+callers {
				return fmt.Errorf("%v goroutines", now)
			}
			return nil
		})
		if now := r.footprint(t); now.heap > before.heap+64<<20 {
			t.Errorf("%s: the heap has %.1f MiB, it had %.1f", encoding, now.heap/(1<<20), before.heap/(1<<20))
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		r.awaitFootprint(t, before)
	}
}
