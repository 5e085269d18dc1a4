package integration_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// A body, or a message, that is larger than the app may send is refused in every
// protocol, and nothing of it reaches the backend; one that is not passes.
func TestBodiesAreBoundedInEveryProtocol(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "limits: {app: {max_body: 4KiB}}\n")
	large := strings.Repeat("x", 8<<10)
	document := `{"text":"` + large + `"}`
	tooLarge := func(t *testing.T, a answer) {
		t.Helper()
		a.failed(t, http.StatusRequestEntityTooLarge, codes.ResourceExhausted, "BODY_TOO_LARGE")
		if !strings.Contains(a.Body, "the app allows, which is 4096 bytes") {
			t.Errorf("it does not say whose limit it is: %s", a.Body)
		}
	}
	t.Run("JSON", func(t *testing.T) {
		tooLarge(t, r.call(t, "POST", "/v1/echo", document))
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = io.WriteString(w, document)
		_ = w.Close()
		tooLarge(t, r.call(t, "POST", "/v1/echo", packed.String(), "Content-Encoding", "gzip"))
		untouched(t, b)
		r.call(t, "POST", "/v1/echo", `{"text":"small"}`).ok(t, "")
	})
	t.Run("JSON stream", func(t *testing.T) {
		tooLarge(t, r.call(t, "POST", "/v1/echo:collect", `{"text":"small"}`+"\n"+document+"\n"))
	})
	t.Run("upload", func(t *testing.T) {
		tooLarge(t, r.call(t, "POST", "/v1/files/x:upload", large))
	})
	b.Take()
	message := func(text string) []byte { return b.Encode("Shapes", `{"text":"`+text+`"}`) }
	t.Run("gRPC", func(t *testing.T) {
		_, err := invoke(r.limited(t), r.conn, unaryEcho, message(large))
		grpcFailed(t, err, codes.ResourceExhausted, "BODY_TOO_LARGE")
		untouched(t, b)
		if _, err := invoke(r.limited(t), r.conn, unaryEcho, message("small")); err != nil {
			t.Error(err)
		}
		s := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/Bidi")
		if err := s.send(string(message("small"))); err != nil {
			t.Fatal(err)
		}
		if _, err := s.recv(); err != nil {
			t.Fatal(err)
		}
		_ = s.send(string(message(large)))
		_, err = s.recv()
		grpcFailed(t, err, codes.ResourceExhausted, "BODY_TOO_LARGE")
	})
	b.Take()
	for _, w := range rpcWays() {
		t.Run(w.String(), func(t *testing.T) {
			_, err := w.client(t, r, b, "Echo/Unary").CallUnary(limited(t), connect.NewRequest(text(b, large)))
			e, ok := errors.AsType[*connect.Error](err)
			if !ok || e.Code() != connect.CodeResourceExhausted || !strings.Contains(e.Message(), "the app allows, which is 4096 bytes") {
				t.Errorf("got %v", err)
			}
			untouched(t, b)
		})
	}
	t.Run("WebSocket", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo:chat")
		s.send(`{"text":"small"}`)
		s.next()
		s.send(document)
		s.failed(codes.ResourceExhausted, "BODY_TOO_LARGE")
	})
	if r.Metric("rpcgate_bounded_calls_total", "bound", "body", "of", "app") < 8 {
		t.Error("they are not counted")
	}
}

// A stream that outlives its lifetime ends with a reason, in every protocol; the
// backend sees its caller go.
func TestStreamsThatOutliveTheirTime(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "limits: {app: {stream_lifetime: 300ms}}\n")
	begun, ended := holdCalls(b, "Echo/Bidi")
	check := func() {
		t.Helper()
		waitFor(t, begun, "the call")
		waitFor(t, ended, "the backend's call to end")
	}
	s := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/Bidi")
	if err := s.send(""); err != nil {
		t.Fatal(err)
	}
	check()
	_, err := s.recv()
	grpcFailed(t, err, codes.DeadlineExceeded, "STREAM_LIFETIME")

	socket := r.openSocket(t, "/v1/echo:chat")
	socket.send(`{"text":"x"}`)
	check()
	socket.failed(codes.DeadlineExceeded, "STREAM_LIFETIME")

	for _, w := range []rpcWay{{"gRPC", true, false, false}, {"gRPC-Web", true, false, false}, {"Connect", true, true, false}} {
		stream := w.client(t, r, b, "Echo/Bidi").CallBidiStream(limited(t))
		if err := stream.Send(text(b, "x")); err != nil {
			t.Fatal(err)
		}
		check()
		if _, err := stream.Receive(); connect.CodeOf(err) != connect.CodeDeadlineExceeded || !strings.Contains(err.Error(), "lasted as long as one may") {
			t.Errorf("%v: %v", w, err)
		}
	}

	begun, ended = holdCalls(b, "Echo/ServerStream")
	a := r.call(t, "GET", "/v1/echo:stream", "")
	check()
	if !strings.Contains(a.Body, "STREAM_LIFETIME") {
		t.Errorf("JSON: %d %s", a.Status, a.Body)
	}
	if n := r.Metric("rpcgate_bounded_calls_total", "bound", "stream_lifetime"); n != 6 {
		t.Errorf("%v streams are counted, want 6", n)
	}
	// Calls that are no streams may take longer.
	b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		timer := time.NewTimer(600 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return s.Send(nil)
		case <-s.Context().Done():
			return s.Context().Err()
		}
	})
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
}

// One app's calls that hang leave room for another's; a route has bounds of its
// own; and what ends makes room at once.
func TestCallsInFlightAreBounded(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "limits: {app: {concurrency: 3, streams: 1}}\nroutes: [{method: testbackend.Echo/Unary, limits: {concurrency: 2}}]\n")
	begun, _ := holdCalls(b, "Echo/Bidi")
	first := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/Bidi")
	_ = first.send("")
	waitFor(t, begun, "the stream")
	second := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/Bidi")
	_, err := second.recv()
	grpcFailed(t, err, codes.ResourceExhausted, "STREAMS_LIMITED")
	_, wsErr := r.trySocket(t, "/v1/echo:chat", nil, "Authorization", r.bearer())
	if wsErr == nil {
		t.Error("a WebSocket is opened beyond the limit of streams")
	}

	release := make(chan struct{})
	entered := make(chan struct{}, 10)
	b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		entered <- struct{}{}
		<-release
		return s.Send(nil)
	})
	answers := make(chan answer, 10)
	for range 2 {
		go func() { answers <- r.call(t, "GET", "/v1/echo", "") }()
		waitFor(t, entered, "a call")
	}
	refused := r.call(t, "GET", "/v1/echo", "")
	refused.failed(t, http.StatusTooManyRequests, codes.ResourceExhausted, "CONCURRENCY_LIMITED")
	if refused.Header.Get("Retry-After") != "1" || !strings.Contains(refused.Body, "calls in flight") {
		t.Errorf("refused with %v %s", refused.Header, refused.Body)
	}
	_, err = invoke(r.limited(t), r.conn, unaryEcho, nil)
	if s := status.Convert(err); reasonOf(s) != "CONCURRENCY_LIMITED" {
		t.Errorf("gRPC: %v", err)
	}
	close(release)
	for range 2 {
		waitFor(t, answers, "the answers").ok(t, "")
	}
	gatewaytest.Eventually(t, func() error {
		if a := r.call(t, "GET", "/v1/echo", ""); a.Status != http.StatusOK {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	if n := r.Metric("rpcgate_app_refused_total", "app", "other", "limit", "concurrency"); n < 2 {
		t.Errorf("%v refusals are counted of the app", n)
	}
}
