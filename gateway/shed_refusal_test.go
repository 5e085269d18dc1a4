package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// newFullFront is an HTTP front whose gateway has as many calls as it may have.
func newFullFront(t testing.TB) *httpFront {
	t.Helper()
	backend := config.DefaultBackend("echo")
	backend.DefaultBinding = true
	front := newEchoFrontOf(t, backend)
	g := front.g
	g.shedder = newShedder(config.Overload{MaxCalls: 1}, prometheus.NewRegistry())
	snap := g.snapshot.Load()
	for _, r := range snap.table.Routes() {
		snap.handlers[r.Index] = g.pipeline(r, forwardTo(g, r, echoForwarder{}))
	}
	var held limits.Ticket
	if v := g.shedder.overload.Enter(&held, limits.Critical); v != limits.Admitted {
		t.Fatal(v)
	}
	return front
}

// Whoever is shed is told so, and when to try again, in the words of each
// protocol.
func TestRefusalByProtocol(t *testing.T) {
	t.Parallel()
	front := newFullFront(t)
	envelope := "\x00\x00\x00\x00\x00"
	for name, tc := range map[string]struct {
		method, path, contentType, body string
		header                          http.Header
		status                          int
		in                              func(http.Header, []byte) string // where the reason is
	}{
		"JSON": {
			http.MethodPost, "/test.Echo/Unary", "application/json", "{}", nil, 503,
			func(_ http.Header, body []byte) string { return string(body) },
		},
		"JSON to a stream": {
			http.MethodPost, "/test.Echo/Chat", "application/x-ndjson", "{}", nil, 503,
			func(_ http.Header, body []byte) string { return string(body) },
		},
		"WebSocket": {
			http.MethodGet, "/test.Echo/Chat", "", "", http.Header{
				"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
				"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
			}, 503,
			func(_ http.Header, body []byte) string { return string(body) },
		},
		"Connect": {
			http.MethodPost, "/test.Echo/Unary", "application/proto", "", http.Header{"Connect-Protocol-Version": {"1"}}, 429, // by Connect's table
			func(_ http.Header, body []byte) string { return string(body) },
		},
		"Connect, a stream": {
			http.MethodPost, "/test.Echo/Chat", "application/connect+proto", envelope, nil, 200,
			func(_ http.Header, body []byte) string { return string(body) },
		},
		"gRPC-Web": {
			http.MethodPost, "/test.Echo/Unary", "application/grpc-web+proto", envelope, nil, 200,
			reasonInHeaders,
		},
		"gRPC": {http.MethodPost, "/test.Echo/Unary", "application/grpc", envelope, nil, 200, reasonInHeaders},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body))
			r.ProtoMajor = 2
			if name == "WebSocket" {
				r.ProtoMajor, r.Body, r.ContentLength = 1, http.NoBody, 0
			}
			if tc.header != nil {
				r.Header = tc.header
			}
			if tc.contentType != "" {
				r.Header.Set("Content-Type", tc.contentType)
			}
			w := httptest.NewRecorder()
			front.ServeHTTP(w, r)
			if w.Code != tc.status {
				t.Errorf("status %d, want %d", w.Code, tc.status)
			}
			if got := tc.in(w.Header(), w.Body.Bytes()); !strings.Contains(got, "OVERLOADED") || !strings.Contains(got, "RetryInfo") {
				t.Errorf("neither reason nor when to try again: %q", got)
			}
			if after := w.Header().Get("Retry-After"); (tc.status >= 400) != (after == "1") {
				t.Errorf("Retry-After %q", after)
			}
		})
	}
}

// reasonInHeaders reads a status from gRPC's headers.
func reasonInHeaders(h http.Header, _ []byte) string {
	if h.Get("Grpc-Status") != "8" || h.Get("Grpc-Message") == "" {
		return ""
	}
	details, _ := base64.RawStdEncoding.DecodeString(h.Get("Grpc-Status-Details-Bin"))
	return string(details)
}

// The gRPC port has all that the status has.
func TestRefusalOnGRPCPort(t *testing.T) {
	t.Parallel()
	front := newFullFront(t)
	srv := grpc.NewServer(grpc.ForceServerCodecV2(rpcproxy.RawCodec()), grpc.UnknownServiceHandler(newGRPCFront(front.g).handle))
	lis, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(lis) }()
	defer srv.Stop()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = conn.Invoke(ctx, "/test.Echo/Unary", &rpcproxy.Frame{}, &rpcproxy.Frame{}, grpc.ForceCodecV2(rpcproxy.RawCodec()))
	s := status.Convert(err)
	var reason string
	var retry time.Duration
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			reason = d.GetReason()
		case *errdetails.RetryInfo:
			retry = d.GetRetryDelay().AsDuration()
		}
	}
	if s.Code() != codes.ResourceExhausted || reason != "OVERLOADED" || retry != time.Second || s.Message() != errOverloaded.Message {
		t.Errorf("got %v, reason %q, to be tried again in %v", s, reason, retry)
	}
}

// What was written out once is what each call would have been told without.
func TestFixedAnswersAreTheSame(t *testing.T) {
	t.Parallel()
	for name, fixed := range map[string]*callError{"detailed": errOverloaded, "bare": errOverloaded.withoutDetails()} {
		plain := *fixed
		plain.fixed = nil
		if name == "bare" != fixed.bare {
			t.Errorf("%s: bare is %v", name, fixed.bare)
		}
		for format := range errorFormat(errorFormats) {
			want, got := appendFailure(nil, &plain, nil, format), appendFailure(nil, fixed, nil, format)
			if !json.Valid(got) || !sameJSON(t, got, want) {
				t.Errorf("%s, format %d:\n%s, want\n%s", name, format, got, want)
			}
		}
		c := new(rpcCall)
		if want, got := c.appendError(nil, &plain), c.appendError(nil, fixed); !sameJSON(t, got, want) {
			t.Errorf("%s, Connect:\n%s, want\n%s", name, got, want)
		}
		got, want := map[string]string{}, map[string]string{}
		eachStatus(fixed, func(key, value string) { got[key] = value })
		eachStatus(&plain, func(key, value string) { want[key] = value })
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		for key := range want {
			if got[key] != want[key] {
				t.Errorf("%s, %s: %q, want %q", name, key, got[key], want[key])
			}
		}
		if !errors.Is(fixed.Status().Err(), plain.Status().Err()) {
			t.Errorf("%s: status %v", name, fixed.Status())
		}
	}
}

// sameJSON compares values: protojson puts blanks where chance has them.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y bytes.Buffer
	if err := errors.Join(json.Compact(&x, a), json.Compact(&y, b)); err != nil {
		t.Fatal(err)
	}
	return x.String() == y.String()
}

// What it costs the front end to refuse a call, with neither net/http nor a
// credential.
func BenchmarkRefusal(b *testing.B) {
	front := newFullFront(b)
	for _, bc := range []struct{ name, contentType, body string }{
		{"JSON", "application/json", "{}"},
		{"Connect", "application/proto", ""},
		{"gRPC-Web", "application/grpc-web+proto", "\x00\x00\x00\x00\x00"},
		{"gRPC", "application/grpc", "\x00\x00\x00\x00\x00"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodPost, "/test.Echo/Unary", http.NoBody)
			r.ProtoMajor = 2
			r.ContentLength = int64(len(bc.body))
			r.Header = http.Header{"Content-Type": {bc.contentType}, "User-Agent": {"test"}, "Accept": {"*/*"}}
			if bc.name == "Connect" {
				r.Header["Connect-Protocol-Version"] = []string{"1"}
			}
			body := strings.NewReader(bc.body)
			r.Body = io.NopCloser(body)
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(bc.body)
				front.ServeHTTP(&sink{header: make(http.Header, 8)}, r)
			}
		})
	}
}
