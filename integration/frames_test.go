package integration_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// Fault 6: an answer that has only trailers reaches a gRPC caller as one, in a
// single HEADERS frame, whatever the kind of the method.
func TestFault6TrailersOnly(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, method := range []string{"Echo/Unary", "Echo/ServerStream", "Echo/ClientStream", "Echo/Bidi"} {
		t.Run(method, func(t *testing.T) {
			b.Handle(method, func(s *testbackend.Stream) error {
				s.SetTrailer(metadata.Pairs("mood", "bad", "mood-bin", "\x01"))
				return status.Error(codes.NotFound, "not here")
			})
			c := dialFrames(t, r.GRPC)
			c.headers(1, false, append(grpcHeaders("/testbackend."+method), "app", r.app, "token", r.token)...)
			c.data(1, true, "\x00\x00\x00\x00\x00")
			got := c.answer(1)
			if len(got.blocks) != 1 || !got.blocks[0].end || got.data != "" {
				t.Fatalf("not trailers-only: %+v", got)
			}
			for name, want := range map[string]string{
				":status": "200", "grpc-status": "5", "grpc-message": "not here", "mood": "bad", "mood-bin": "AQ",
			} {
				if v := got.last().get(name); v != want {
					t.Errorf("%s: %q, want %q", name, v, want)
				}
			}
		})
	}
	// So does what the gateway itself refuses.
	c := dialFrames(t, r.GRPC)
	c.headers(1, false, grpcHeaders(unaryEcho)...)
	c.data(1, true, "\x00\x00\x00\x00\x00")
	if got := c.answer(1); len(got.blocks) != 1 || got.last().get("grpc-status") != "16" {
		t.Errorf("refused: %+v", got)
	}
}

// Fault 6: what the backend sees on the wire is gRPC as it should be: te:
// trailers, the content type, and a grpc-timeout; of the connection to the
// caller nothing.
func TestFault6BackendSeesTE(t *testing.T) {
	t.Parallel()
	protoset := filepath.Join(t.TempDir(), "echo.binpb")
	if err := os.WriteFile(protoset, testbackend.Start(t).Protoset(), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startFrameBackend(t)
	r := newRig(t, fmt.Sprintf("backends:\n  - {name: echo, endpoints: [%q], protoset: [%q]}\n", b.addr, protoset))
	check := func(t *testing.T) {
		t.Helper()
		got := waitFor(t, b.requests, "the request's headers")
		for name, want := range map[string]string{
			":method": "POST", ":scheme": "http", ":path": unaryEcho, "te": "trailers",
			"app": r.app, "token": r.token,
			"connection": "", "transfer-encoding": "", "keep-alive": "", "authorization": "",
		} {
			if v := got.get(name); v != want {
				t.Errorf("%s: %q, want %q", name, v, want)
			}
		}
		if v := got.get("grpc-timeout"); v == "" {
			t.Error("no grpc-timeout")
		}
	}
	t.Run("gRPC", func(t *testing.T) {
		if _, err := invoke(r.limited(t), r.conn, unaryEcho, nil); err != nil {
			t.Fatal(err)
		}
		check(t)
	})
	t.Run("JSON", func(t *testing.T) {
		r.call(t, "GET", "/v1/echo", "", "TE", "trailers, deflate", "Keep-Alive", "1").ok(t, "")
		check(t)
	})
}

// A caller that compresses gets its answer compressed, one that does not gets it
// plain, as a backend would answer it.
func TestCompressedAnswer(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	message := b.Encode("Shapes", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 5000)))
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(message)
	_ = w.Close()
	for name, tc := range map[string]struct {
		extra    []string
		flag     byte
		data     []byte
		encoding string
	}{
		"gzip":  {[]string{"grpc-encoding", "gzip", "grpc-accept-encoding", "gzip"}, 1, packed.Bytes(), "gzip"},
		"plain": {nil, 0, message, ""},
	} {
		for _, method := range []string{unaryEcho, "/testbackend.Echo/Bidi"} {
			t.Run(name+method, func(t *testing.T) {
				c := dialFrames(t, r.GRPC)
				c.headers(1, false, append(append(grpcHeaders(method), "app", r.app, "token", r.token), tc.extra...)...)
				envelope := append([]byte{tc.flag}, binary.BigEndian.AppendUint32(nil, uint32(len(tc.data)))...)
				c.data(1, true, string(append(envelope, tc.data...)))
				got := c.answer(1)
				if got.last().get("grpc-status") != "0" || len(got.data) < 5 {
					t.Fatalf("%+v", got)
				}
				if e := got.blocks[0].get("grpc-encoding"); e != tc.encoding || got.data[0] != tc.flag {
					t.Errorf("grpc-encoding %q, flag %d; want %q, %d", e, got.data[0], tc.encoding, tc.flag)
				}
				answer := []byte(got.data[5:])
				if tc.flag == 1 {
					z, err := gzip.NewReader(bytes.NewReader(answer))
					if err != nil {
						t.Fatal(err)
					}
					if answer, err = io.ReadAll(z); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(answer, message) {
					t.Error("the answer is another message")
				}
			})
		}
	}
}

// What is no HTTP/2, or breaks its rules, ends its own connection and nothing
// else.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for name, wire := range map[string]string{
		"HTTP/1.1":       "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"noise":          "\x00\x01\x02\x03 this is no preface at all",
		"preface alone":  http2.ClientPreface,
		"data on idle":   http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x00\x00\x00\x00\x00\x09x",
		"huge frame":     http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\xff\xff\xff\x01\x00\x00\x00\x00\x01",
		"even stream id": http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x01\x05\x00\x00\x00\x02\x82",
	} {
		for port, addr := range map[string]string{"gRPC": r.GRPC, "HTTP": r.HTTP} {
			t.Run(name+"/"+port, func(t *testing.T) {
				conn := rawConn(t, addr)
				_, _ = io.WriteString(conn, wire)
				_ = conn.Close()
			})
		}
	}
	for name, envelope := range map[string]string{
		"cut off":            "\x00\x00\x00\x00\x05ab",
		"flag of no meaning": "\x07\x00\x00\x00\x00",
		"nothing":            "",
	} {
		t.Run(name, func(t *testing.T) {
			c := dialFrames(t, r.GRPC)
			c.headers(1, false, append(grpcHeaders(unaryEcho), "app", r.app, "token", r.token)...)
			c.data(1, true, envelope)
			if got := c.answer(1); got.last().get("grpc-status") == "0" {
				t.Errorf("accepted: %+v", got)
			}
		})
	}
	t.Run("no gRPC", func(t *testing.T) {
		c := dialFrames(t, r.GRPC)
		c.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "x")
		if got := c.answer(1); got.last().get(":status") == "200" && got.last().get("grpc-status") == "0" {
			t.Errorf("accepted: %+v", got)
		}
	})
	t.Run("malformed grpc-timeout", func(t *testing.T) {
		for _, timeout := range []string{"soon", "5", "123456789S", "-1S"} {
			c := dialFrames(t, r.GRPC)
			c.headers(1, false, append(grpcHeaders(unaryEcho), "app", r.app, "token", r.token, "grpc-timeout", timeout)...)
			c.data(1, true, "\x00\x00\x00\x00\x00")
			got := c.answer(1)
			if s := got.last().get("grpc-status"); s == "0" || s == "" && !got.reset && got.last().get(":status") != "400" {
				t.Errorf("%s was accepted: %+v", timeout, got)
			}
		}
	})
	untouched(t, b)
	if _, err := invoke(r.limited(t), r.conn, unaryEcho, nil); err != nil {
		t.Errorf("the next call: %v", err)
	}
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
}

// grpcHeaders are those of a gRPC request, names and values in turn.
func grpcHeaders(method string) []string {
	return []string{
		":method", "POST", ":scheme", "http", ":path", method, ":authority", "x",
		"content-type", "application/grpc", "te", "trailers",
	}
}

// block is one header block.
type block struct {
	fields []hpack.HeaderField
	end    bool // it ended the stream
}

func (b block) get(name string) string {
	for _, f := range b.fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// frameAnswer is what came on one stream, until its end.
type frameAnswer struct {
	blocks []block
	data   string
	reset  bool // or the connection was given up
}

func (a frameAnswer) last() block {
	if len(a.blocks) == 0 {
		return block{}
	}
	return a.blocks[len(a.blocks)-1]
}

// frameConn speaks HTTP/2 frame by frame.
type frameConn struct {
	t      testing.TB
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder

	// What next has read.
	ended     map[uint32]bool
	goAways   []*http2.GoAwayFrame
	pings     []http2.Frame
	answering bool // pings are answered
}

func newFrameConn(t testing.TB, conn net.Conn) *frameConn {
	t.Helper()
	c := &frameConn{t: t, framer: http2.NewFramer(conn, conn), ended: map[uint32]bool{}}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.hpack = hpack.NewEncoder(&c.block)
	return c
}

// dialFrames opens a connection to a server.
func dialFrames(t testing.TB, addr string) *frameConn {
	t.Helper()
	return startFrames(t, rawConn(t, addr))
}

// startFrames begins to speak HTTP/2 on a connection.
func startFrames(t testing.TB, conn net.Conn) *frameConn {
	t.Helper()
	c := newFrameConn(t, conn)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *frameConn) headers(stream uint32, end bool, fields ...string) {
	c.block.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		_ = c.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	// A peer that is gone shows when its answer is read.
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndStream: end, EndHeaders: true})
}

func (c *frameConn) data(stream uint32, end bool, data string) {
	_ = c.framer.WriteData(stream, end, []byte(data))
}

// answer reads what comes on a stream until its end.
func (c *frameConn) answer(stream uint32) frameAnswer {
	c.t.Helper()
	var a frameAnswer
	for {
		f, err := c.framer.ReadFrame()
		if errors.Is(err, io.EOF) {
			a.reset = true
			return a
		}
		if err != nil {
			c.t.Fatalf("reading frames: %v, after %+v", err, a)
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			a.blocks = append(a.blocks, block{f.Fields, f.StreamEnded()})
		case *http2.DataFrame:
			a.data += string(f.Data())
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			a.reset = true
			return a
		default:
			c.housekeep(f)
			continue
		}
		if f.Header().StreamID == stream && f.Header().Flags.Has(http2.FlagDataEndStream) {
			return a
		}
	}
}

// housekeep answers the frames that belong to no stream.
func (c *frameConn) housekeep(f http2.Frame) {
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			_ = c.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = c.framer.WritePing(true, f.Data)
		}
	}
}

// frameBackend answers each call with an empty message and tells its headers.
type frameBackend struct {
	addr     string
	requests chan block
}

func startFrameBackend(t testing.TB) *frameBackend {
	t.Helper()
	var listener net.ListenConfig
	lis, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &frameBackend{addr: lis.Addr().String(), requests: make(chan block, 10)}
	var serving sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	serving.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			serving.Go(func() { b.serve(t, conn) })
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return b
}

func (b *frameBackend) serve(t testing.TB, conn net.Conn) {
	t.Helper()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	c := newFrameConn(t, conn)
	_ = c.framer.WriteSettings()
	refused := map[uint32]bool{}
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			got := block{f.Fields, f.StreamEnded()}
			if strings.HasPrefix(got.get(":path"), "/grpc.health.v1.Health/") {
				c.headers(f.StreamID, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "12")
				refused[f.StreamID] = true // the gateway's own question
				continue
			}
			b.requests <- got
		case *http2.DataFrame:
			if f.StreamEnded() && !refused[f.StreamID] {
				c.headers(f.StreamID, false, ":status", "200", "content-type", "application/grpc")
				c.data(f.StreamID, false, "\x00\x00\x00\x00\x00")
				c.headers(f.StreamID, true, "grpc-status", "0")
			}
		default:
			c.housekeep(f)
		}
	}
}
