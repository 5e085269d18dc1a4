package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// startEchoServer serves an echo front whose callers have little time.
func startEchoServer(t *testing.T, limit time.Duration) string {
	t.Helper()
	front := newEchoFront(t)
	front.cfg.BodyTimeout = limit
	srv := httptest.NewServer(front)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// rawRequest sends the beginning of an HTTP/1.1 request, and returns the
// connection and what is read from it.
func rawRequest(t *testing.T, addr, path, contentType, beginning string) (net.Conn, *bufio.Reader) {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%s", path, contentType, beginning)
	if err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func chunk(data string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(data), data) }

// A message that has begun must come to its end in time, in unary calls and in
// streams; the caller is told, and the connection closes.
func TestSlowSendersOfRPCs(t *testing.T) {
	t.Parallel()
	addr := startEchoServer(t, 200*time.Millisecond)
	for _, tc := range []struct{ path, contentType, beginning, want string }{
		{"/test.Echo/Unary", "application/proto", chunk("\x0a"), `"deadline_exceeded"`},
		{"/test.Echo/Unary", "application/grpc-web", chunk("\x00\x00\x00\x00\x05abc"), "grpc-status: 4"},
		{"/test.Echo/Unary", "application/grpc-web", "", "grpc-status: 4"},
		{"/test.Echo/Chat", "application/grpc-web", chunk("\x00\x00"), "grpc-status: 4"},
		{"/test.Echo/Chat", "application/connect+proto", chunk("\x00\x00\x00\x00\x05abc"), `"deadline_exceeded"`},
		{"/test.Echo/Chat", "application/connect+proto", chunk("\x00\x00\x00\x00\x02\x0a\x00\x00\x00\x00\x00\x09abc"), `"deadline_exceeded"`},
	} {
		t.Run(tc.path+" "+tc.contentType, func(t *testing.T) {
			t.Parallel()
			_, answer := rawRequest(t, addr, tc.path, tc.contentType, tc.beginning)
			text, err := io.ReadAll(answer) // it closes
			if err != nil || !strings.Contains(strings.ToLower(string(text)), tc.want) {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// The caller's own time bounds how long its message is waited for, too.
func TestDeadlineOfSlowSenders(t *testing.T) {
	t.Parallel()
	addr := startEchoServer(t, time.Minute)
	for _, tc := range []struct{ contentType, timeout string }{
		{"application/proto", "Connect-Timeout-Ms: 100"}, {"application/grpc-web", "Grpc-Timeout: 100m"},
	} {
		_, answer := rawRequest(t, addr, "/test.Echo/Unary", tc.contentType+"\r\n"+tc.timeout, chunk("\x00"))
		text, err := io.ReadAll(answer)
		if err != nil || !strings.Contains(string(text), "deadline passed") {
			t.Errorf("%s: %q, %v", tc.contentType, text, err)
		}
	}
}

// A stream may rest between messages for as long as it likes, and is answered
// while its caller still sends, over HTTP/1.1, too.
func TestRestingStream(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	addr := startEchoServer(t, limit)
	message := "\x00\x00\x00\x00\x04\x0a\x02hi"
	conn, reader := rawRequest(t, addr, "/test.Echo/Chat", "application/connect+proto", "")
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for range 3 {
		<-time.After(2 * limit)
		if _, err := io.WriteString(conn, chunk(message)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(message))
		if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != message {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if _, err := io.WriteString(conn, "0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if end, err := io.ReadAll(answer.Body); err != nil || string(end) != "\x02\x00\x00\x00\x02{}" {
		t.Errorf("%q, %v", end, err)
	}
}
