package integration_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// A stream has no HEAD: it would be held open for nothing to be sent.
func TestHeadOfAStream(t *testing.T) {
	t.Parallel()
	r := newShopRig(t, "")
	a := r.call(t, http.MethodHead, "/v1/users/1/orders:watch", "")
	if a.Status != http.StatusMethodNotAllowed || !strings.Contains(a.Header.Get("Allow"), "GET") {
		t.Errorf("status %d, Allow %q", a.Status, a.Header.Get("Allow"))
	}
	r.call(t, http.MethodHead, "/v1/users/1", "") // of a unary route it ends
}

// The caller's time bounds the look-up of its credential too, whichever the
// protocol, and running out of it is not the store's failure.
func TestDeadlineBoundsTheLookUp(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "auth: {cache: {load_timeout: 20s}}\n")
	r.redis.Pause()
	t.Cleanup(r.redis.Resume)
	begun := time.Now()
	r.call(t, "POST", unaryEcho, "{}", "X-Request-Timeout", "100ms").
		failed(t, http.StatusGatewayTimeout, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("answered after %v", took)
	}
	untouched(t, b)
	if n := r.Metric("rpcgate_auth_total", "outcome", "abandoned"); n != 1 {
		t.Errorf("%v abandoned look-ups, want 1", n)
	}
}

// Who is cut off at the drain limit is told so, and not blamed for leaving.
func TestCutOffAtTheDrainLimitIsTold(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "timeout: 0s", "shutdown: {delay: 0s, drain_timeout: 500ms}\n")
	begun, _ := holdCalls(b, "Echo/Unary")
	got := make(chan answer, 1)
	go func() { got <- r.call(t, "POST", unaryEcho, "{}") }()
	waitFor(t, begun, "the call at the backend")
	if code := r.Stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	waitFor(t, got, "the answer").failed(t, http.StatusServiceUnavailable, codes.Unavailable, "DRAINING")
	r.WaitLog(`"reason":"DRAINING"`)
}

// A caller that does not read its answer loses it after a while, and the memory
// that it took is free again.
func TestCallerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "http: {address: '127.0.0.1:0', write_timeout: 500ms}\n")
	b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		// A Message whose text is of 12 MiB: more than the sockets' buffers take.
		text := make([]byte, 12<<20)
		for i := range text {
			text[i] = 'x'
		}
		return s.Send(append(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(len(text))), text...))
	})
	if a := r.call(t, "POST", unaryEcho, "{}"); a.Status != http.StatusOK || len(a.Body) < 12<<20 {
		t.Fatalf("who reads gets status %d and %d bytes", a.Status, len(a.Body))
	}
	for range 5 {
		conn, err := net.Dial("tcp", r.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: 2\r\n\r\n{}", unaryEcho, r.bearer())
		if err != nil {
			t.Fatal(err)
		}
	}
	writing := func() bool { return strings.Contains(r.AdminGet("/debug/pprof/goroutine?debug=1"), "writeWhole") }
	gatewaytest.Eventually(t, func() error {
		if !writing() {
			return errors.New("nobody is kept waiting yet")
		}
		return nil
	})
	gatewaytest.Eventually(t, func() error {
		if writing() {
			return errors.New("an answer still waits to be read")
		}
		return nil
	})
}
