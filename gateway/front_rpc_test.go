package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/gateway/wire"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/telemetry"
)

// echoForwarder stands in for a backend that sends everything back.
type echoForwarder struct{}

func (echoForwarder) Forward(_ context.Context, r *rpcproxy.Request, ex rpcproxy.Exchange) error {
	if err := ex.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for {
		msg, err := ex.RecvMsg()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &rpcproxy.ExchangeError{Err: err}
		}
		if err := ex.SendMsg(msg); err != nil {
			return &rpcproxy.ExchangeError{Err: err}
		}
		if !r.ClientStreams {
			return nil
		}
	}
}

// newEchoFront makes an HTTP front before a service test.Echo, whose methods
// Unary, Safe (without side effects) and Chat need no credential.
func newEchoFront(t testing.TB) *httpFront {
	t.Helper()
	return newEchoFrontOf(t, config.DefaultBackend("echo"))
}

func newEchoFrontOf(t testing.TB, backend config.Backend) *httpFront {
	t.Helper()
	dir := t.TempDir()
	source := `syntax = "proto3"; package test;
		service Echo {
			rpc Unary(X) returns (X);
			rpc Safe(X) returns (X) { option idempotency_level = NO_SIDE_EFFECTS; }
			rpc Chat(stream X) returns (stream X);
		}
		message X { string text = 1; }`
	if err := os.WriteFile(filepath.Join(dir, "x.proto"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := routes.CompileProto(t.Context(), config.ProtoSources{Files: []string{"x.proto"}, ImportPaths: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	g, _, _ := newTestGateway(verifyFunc(func(auth.Credential) (*auth.Principal, error) { return nil, auth.ErrInvalid }))
	g.accessLog = telemetry.NewAccessLog(g.log, config.Log{SlowThreshold: time.Minute})
	g.unroutedCalls = newUnroutedObservers(g.calls)
	g.ready.on.Store(true)
	echo := generation{cfg: g.cfg, backends: map[string]*rpcproxy.Backend{"echo": nil}}
	backend.Auth = "none"
	snap, err := g.build(echo, nil, []routes.Input{{Backend: backend, Descriptors: files}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range snap.table.Routes() {
		snap.handlers[r.Index] = g.pipeline(r, forwardTo(g, r, echoForwarder{}))
	}
	g.snapshot.Store(snap)
	front, err := newHTTPFront(g, g.cfg.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	return front
}

func TestConnectByGET(t *testing.T) {
	t.Parallel()
	front := newEchoFront(t)
	for _, tc := range []struct {
		target string
		status int
		want   string
	}{
		{"/test.Echo/Safe?connect=v1&encoding=json&message=%7B%22text%22%3A%22hi%22%7D", 200, `{"text":"hi"}`},
		{"/test.Echo/Safe?encoding=proto&base64=1&message=CgJoaQ", 200, "\n\x02hi"},
		{"/test.Echo/Safe?encoding=proto&base64=1&message=CgJoaQ%3D%3D&connect=v1", 200, "\n\x02hi"},
		{"/test.Echo/Safe?encoding=json&message=%7B%7D&connect=v2", 400, `"invalid_argument"`},
		{"/test.Echo/Safe?encoding=json", 400, `"invalid_argument"`},
		{"/test.Echo/Safe?encoding=proto&base64=1&message=*", 400, `"invalid_argument"`},
		{"/test.Echo/Safe?encoding=proto&base64=1&message=AA&compression=br", 501, `"unimplemented"`},
		{"/test.Echo/Safe?encoding=json&message=%7B", 400, `"invalid_argument"`},
		{"/test.Echo/Safe?encoding=thrift&message=", 415, ""},
		{"/test.Echo/Safe", 415, ""},
		{"/test.Echo/Unary?encoding=json&message=%7B%7D&connect=v1", 405, ""},
		{"/test.Echo/Chat?encoding=json&message=%7B%7D&connect=v1", 405, ""},
	} {
		w := httptest.NewRecorder()
		front.ServeHTTP(w, httptest.NewRequest(http.MethodGet, tc.target, nil))
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s: %d %q", tc.target, w.Code, w.Body)
		}
		if w.Code == http.StatusOK && w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: Vary %q", tc.target, w.Header().Get("Vary"))
		}
	}
}

// A call of a method's own path that no JSON route takes is Connect's, whether
// or not it says so; anything but JSON and protobuf is refused.
func TestBareConnect(t *testing.T) {
	t.Parallel()
	front := newEchoFront(t)
	for contentType, status := range map[string]int{
		"application/json": 200, "application/json;charset=utf-8": 200, "Application/JSON": 200, "application/proto": 200,
		"image/jpeg": 415, "": 415, "application/json; charset=latin1": 415, "text/plain": 415,
	} {
		r := httptest.NewRequest(http.MethodPost, "/test.Echo/Unary", strings.NewReader(""))
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%q: %d %s", contentType, w.Code, w.Body)
		}
		if accept := w.Header().Get("Accept-Post"); (status == 415) != strings.Contains(accept, "application/json") {
			t.Errorf("%q: Accept-Post %q", contentType, accept)
		}
	}
}

// Answers are compressed as the caller says it can read them, where it pays.
func TestConnectCompressesAnswers(t *testing.T) {
	t.Parallel()
	front := newEchoFront(t)
	for _, tc := range []struct {
		accept, want string
		size         int
	}{
		{"", "", 5000}, {"identity", "", 5000}, {"gzip", "gzip", 5000}, {"zstd, gzip", "zstd", 5000}, {"gzip;q=0", "", 5000}, {"gzip", "", 100},
	} {
		r := httptest.NewRequest(http.MethodPost, "/test.Echo/Unary", strings.NewReader(`{"text":"`+strings.Repeat("x", tc.size)+`"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept-Encoding", tc.accept)
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding"); w.Code != http.StatusOK || got != tc.want {
			t.Errorf("%q, %d bytes: %d, %q", tc.accept, tc.size, w.Code, got)
		}
	}
}

// Content types are the same whatever their case, and several encodings are none.
func TestRPCHeaders(t *testing.T) {
	t.Parallel()
	front := newEchoFront(t)
	for _, tc := range []struct {
		contentType, header string
		values              []string
		want                string
	}{
		{"Application/gRPC-Web", "Grpc-Encoding", nil, "grpc-status: 0"},
		{"application/grpc-web", "Grpc-Encoding", []string{"identity"}, "grpc-status: 0"},
		{"application/grpc-web", "Grpc-Encoding", []string{"identity", "gzip"}, "12"},
		{"Application/Proto", "Content-Encoding", nil, "\x00\x00\x00\x00\x00"},
		{"application/proto", "Content-Encoding", []string{"identity", "gzip"}, "unimplemented"},
		{"application/proto", "Content-Encoding", []string{"gzip", "gzip"}, "unimplemented"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/test.Echo/Unary", strings.NewReader("\x00\x00\x00\x00\x00"))
		r.Header.Set("Content-Type", tc.contentType)
		r.Header[tc.header] = tc.values
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		if got := w.Header().Get("Grpc-Status") + w.Body.String(); !strings.Contains(got, tc.want) {
			t.Errorf("%q, %s %q: %d %q", tc.contentType, tc.header, tc.values, w.Code, got)
		}
	}
}

// sink is a ResponseWriter that keeps nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header              { return s.header }
func (s *sink) Write(p []byte) (int, error)      { return len(p), nil }
func (s *sink) WriteHeader(int)                  {}
func (s *sink) FlushError() error                { return nil }
func (s *sink) SetReadDeadline(time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// What a unary call costs the front end, with neither net/http nor a backend.
func BenchmarkUnaryRPC(b *testing.B) {
	front := newEchoFront(b)
	message := append([]byte("\x0a\x80\x01"), bytes.Repeat([]byte("x"), 128)...)
	var header [wire.EnvelopeHeaderSize]byte
	wire.PutEnvelopeHeader(&header, 0, len(message))
	enveloped := append(header[:], message...)
	for _, bc := range []struct {
		name, contentType string
		body              []byte
	}{
		{"gRPC", "application/grpc", enveloped},
		{"gRPC-Web", "application/grpc-web+proto", enveloped},
		{"gRPC-Web text", "application/grpc-web-text", wire.AppendText(nil, enveloped)},
		{"Connect", "application/proto", message},
		{"Connect JSON", "application/json", []byte(`{"text":"` + strings.Repeat("x", 128) + `"}`)},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			r := httptest.NewRequest(http.MethodPost, "/test.Echo/Unary", nil)
			r.ProtoMajor = 2
			r.ContentLength = int64(len(bc.body))
			r.Header = http.Header{"Content-Type": {bc.contentType}, "User-Agent": {"test"}, "Te": {"trailers"}}
			if strings.HasPrefix(bc.name, "Connect") {
				r.Header["Connect-Protocol-Version"] = []string{"1"}
			}
			body := bytes.NewReader(bc.body)
			r.Body = io.NopCloser(body)
			for b.Loop() {
				body.Reset(bc.body)
				front.ServeHTTP(&sink{header: make(http.Header, 8)}, r)
			}
		})
	}
}
