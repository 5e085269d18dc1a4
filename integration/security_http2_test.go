package integration_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

// h2Ports are the two servers that speak HTTP/2.
func h2Ports(r *rig) map[string]string {
	return map[string]string{"HTTP port": r.HTTP, "gRPC port": r.GRPC}
}

// attack opens a connection that speaks HTTP/2 and never looks at what comes,
// unless reading is set. Writes end with the test's limit at the latest.
func attack(t testing.TB, addr string, reading bool) (net.Conn, *http2.Framer) {
	t.Helper()
	conn := rawConn(t, addr)
	_ = conn.SetDeadline(time.Now().Add(gatewaytest.Limit))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(conn, nil)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if reading {
		go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection, which the test closes
	}
	return conn, f
}

// hasLimit tells whether an attack ran into the test's limit, and not into the
// gateway.
func hasLimit(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// Streams that are opened and reset at once (CVE-2023-44487) cost their sender
// the connection or go nowhere: the backend is not flooded with them, others are
// served, and nothing is left.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", quiet)
	must(t, r.echoing())
	must(t, r.invoking(r.conn))
	b.Take()
	before := r.footprint(t)
	for name, addr := range h2Ports(r) {
		good := startLoad(t, 2, r.echoing(), r.invoking(r.conn))
		conn, f := attack(t, addr, true)
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		resets := 0
		for id := uint32(1); id < 60_000; id += 2 {
			block.Reset()
			for i, fields := 0, append(grpcHeaders(echoUnary), "app", r.app, "token", r.token); i < len(fields); i += 2 {
				_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
			}
			if f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}) != nil ||
				f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				break
			}
			resets++
		}
		_ = conn.Close()
		good.stop()
		good.only()
		if good.slowest > 2*slack {
			t.Errorf("%s: a good caller waited for %v", name, good.slowest)
		}
		t.Logf("%s: %d streams were reset", name, resets)
	}
	r.awaitFootprint(t, before)
}

// Header blocks without an end (CVE-2023-45288) are ended by the gateway, after
// about as much as headers may have.
func TestContinuationFlood(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", quiet)
	must(t, r.echoing())
	must(t, r.invoking(r.conn))
	before := r.footprint(t)
	// A literal that is not indexed, with a name and a value of 4,000 bytes.
	var field bytes.Buffer
	_ = hpack.NewEncoder(&field).WriteField(hpack.HeaderField{Name: "x-flood", Value: strings.Repeat("~", 4000), Sensitive: true})
	for name, addr := range h2Ports(r) {
		good := startLoad(t, 2, r.echoing(), r.invoking(r.conn))
		conn, f := attack(t, addr, true)
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		for i, fields := 0, grpcHeaders(echoUnary); i < len(fields); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()})
		sent := 0
		const most = 64 << 20
		for err == nil && sent < most {
			err = f.WriteContinuation(1, false, field.Bytes())
			sent += field.Len()
		}
		_ = conn.Close()
		switch {
		case err == nil:
			t.Errorf("%s took %d MiB of headers", name, sent>>20)
		case hasLimit(err):
			t.Errorf("%s neither read on nor closed the connection", name)
		}
		t.Logf("%s: closed after %d KiB", name, sent>>10)
		good.stop()
		good.only()
	}
	r.awaitFootprint(t, before)
}

// Frames that ask for an answer each, from a peer that reads none of them: what
// is kept of the answers is bounded, whatever is sent.
func TestControlFrameFlood(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", quiet)
	must(t, r.echoing())
	must(t, r.invoking(r.conn))
	before := r.footprint(t)
	for name, addr := range h2Ports(r) {
		for kind, write := range map[string]func(*http2.Framer) error{
			"PING": func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1}) },
			"SETTINGS": func(f *http2.Framer) error {
				return f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 14})
			},
			"PRIORITY": func(f *http2.Framer) error { return f.WritePriority(1, http2.PriorityParam{StreamDep: 3}) },
		} {
			good := startLoad(t, 2, r.echoing(), r.invoking(r.conn))
			conn, f := attack(t, addr, false)
			// Long enough to fill what a peer may keep, short enough not to try the
			// patience of the suite where it stops reading instead.
			_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
			sent := 0
			for sent < 500_000 && write(f) == nil {
				sent++
			}
			if got := r.liveHeap(); got > 96<<20 {
				t.Errorf("%s, %s: %d MiB of memory are in use", name, kind, got>>20)
			}
			_ = conn.Close()
			good.stop()
			good.only()
			t.Logf("%s: %d frames of %s", name, sent, kind)
		}
	}
	r.awaitFootprint(t, before)
}

// Compressed headers that unpack to a multiple of themselves are bounded by what
// they unpack to.
func TestHeaderCompressionBomb(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", quiet)
	must(t, r.echoing())
	b.Take()
	before := r.footprint(t)
	for name, addr := range h2Ports(r) {
		conn := rawConn(t, addr)
		_ = conn.SetDeadline(time.Now().Add(gatewaytest.Limit))
		if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		f := http2.NewFramer(conn, conn)
		_ = f.WriteSettings()
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		for i, fields := 0, append(grpcHeaders(echoUnary), "app", r.app, "token", r.token); i < len(fields); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		// Once in full, then an index of a byte or two, ten thousand times: 40 MB.
		bomb := hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("y", 4000)}
		for range 10_000 {
			_ = enc.WriteField(bomb)
		}
		const chunk = 16 << 10
		data := block.Bytes()
		first := data[:min(chunk, len(data))]
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndHeaders: len(data) <= chunk, EndStream: true})
		for data = data[len(first):]; err == nil && len(data) > 0; {
			part := data[:min(chunk, len(data))]
			data = data[len(part):]
			err = f.WriteContinuation(1, len(data) == 0, part)
		}
		status := ""
		dec := hpack.NewDecoder(4096, func(h hpack.HeaderField) {
			if h.Name == ":status" {
				status = h.Value
			}
		})
		for err == nil {
			var frame http2.Frame
			if frame, err = f.ReadFrame(); err != nil {
				break
			}
			if h, ok := frame.(*http2.HeadersFrame); ok {
				_, _ = dec.Write(h.HeaderBlockFragment())
			}
			if id := frame.Header().StreamID; id == 1 && frame.Header().Type != http2.FrameWindowUpdate {
				break
			}
		}
		if hasLimit(err) {
			t.Errorf("%s neither answered nor closed the connection", name)
		}
		if status == "200" {
			t.Errorf("%s took the headers", name)
		}
		t.Logf("%s: status %q, %v", name, status, err)
		_ = conn.Close()
	}
	untouched(t, b)
	r.call(t, http.MethodGet, "/v1/echo", "").ok(t, "")
	b.Take()
	r.awaitFootprint(t, before)
}
