package integration_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// socket is a WebSocket to a gateway, as a test uses it.
type socket struct {
	*websocket.Conn
	t     testing.TB
	resp  *http.Response
	pings chan struct{} // one for each that was answered
}

// openSocket opens a WebSocket with a credential in the headers.
func (r *rig) openSocket(t testing.TB, target string, header ...string) *socket {
	t.Helper()
	s, err := r.trySocket(t, target, nil, append(header, "Authorization", r.bearer())...)
	if err != nil {
		t.Fatalf("opening %s: %v", target, err)
	}
	return s
}

// trySocket opens a WebSocket without a credential of its own.
func (r *rig) trySocket(t testing.TB, target string, protocols []string, header ...string) (*socket, error) {
	t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	s := &socket{t: t, pings: make(chan struct{}, 100)}
	var err error
	s.Conn, s.resp, err = websocket.Dial(limited(t), "ws://"+r.HTTP+target, &websocket.DialOptions{
		HTTPHeader: h, Subprotocols: protocols, HTTPClient: &http.Client{Transport: r.http1.Transport},
		OnPingReceived: func(context.Context, []byte) bool {
			s.pings <- struct{}{}
			return true
		},
	})
	if err != nil {
		return s, err
	}
	s.SetReadLimit(-1)
	t.Cleanup(func() { _ = s.CloseNow() })
	return s, nil
}

func (s *socket) send(text string) {
	s.t.Helper()
	if err := s.Write(limited(s.t), websocket.MessageText, []byte(text)); err != nil {
		s.t.Fatalf("sending %.80q: %v", text, err)
	}
}

// want reads frames and compares them as JSON.
func (s *socket) want(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		sameJSON(s.t, s.next(), text)
	}
}

func (s *socket) next() string {
	s.t.Helper()
	kind, data, err := s.Read(limited(s.t))
	if err != nil {
		s.t.Fatalf("reading: %v", err)
	}
	if kind != websocket.MessageText {
		s.t.Errorf("a frame of kind %v", kind)
	}
	return string(data)
}

// closed wants the connection to end with a code, and returns the reason.
func (s *socket) closed(code websocket.StatusCode) string {
	s.t.Helper()
	_, data, err := s.Read(limited(s.t))
	var end websocket.CloseError
	if !errors.As(err, &end) || end.Code != code {
		s.t.Fatalf("read %q, %v; want a close with %d", data, err, code)
	}
	return end.Reason
}

// failed wants a last frame with an error, and the close that goes with it.
func (s *socket) failed(code codes.Code, reason string) {
	s.t.Helper()
	text := s.next()
	for _, part := range []string{`{"error":`, fmt.Sprintf(`"code":%d`, code), `"reason":"` + reason + `"`} {
		if reason == "" && strings.Contains(part, "reason") {
			continue
		}
		if !strings.Contains(strings.ReplaceAll(text, " ", ""), part) {
			s.t.Errorf("the last frame is %s; want %s in it", text, part)
		}
	}
	s.closed(websocket.StatusCode(4000 + int(code)))
}

const compact = "json: {emit_defaults: false}"

func TestWebSocketKinds(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, compact, "")
	t.Run("bidi", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo:chat")
		for i := 1; i < 4; i++ {
			s.send(fmt.Sprintf(`{"number":"%d"}`, i))
			s.want(fmt.Sprintf(`{"number":"%d"}`, i))
		}
		s.send("")
		s.closed(websocket.StatusNormalClosure)
	})
	t.Run("bidi with the room in the path", func(t *testing.T) {
		s := r.openSocket(t, "/v1/rooms/blue:chat?flag=true")
		s.send(`{"name":"Ada"}`)
		s.send(`{"name":"Bob"}`)
		s.want(`{"name":"Ada"}`, `{"name":"Bob"}`)
		s.send("")
		s.closed(websocket.StatusNormalClosure)
		b.Take()
	})
	t.Run("client stream", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo:collect")
		s.send(`{"text":"a"}`)
		s.send(`{"text":"b"}`)
		s.send("")
		s.want(`{"text":"b"}`)
		s.closed(websocket.StatusNormalClosure)
	})
	t.Run("server stream without a body", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo:stream?text=q")
		s.want(`{"text":"q"}`)
		s.closed(websocket.StatusNormalClosure)
	})
	t.Run("unary with a body", func(t *testing.T) {
		s := r.openSocket(t, "/testbackend.Echo/Unary")
		s.send(`{"text":"x"}`)
		s.send("") // which says no more than is known
		s.want(`{"text":"x"}`)
		s.closed(websocket.StatusNormalClosure)
	})
	t.Run("unary without a body", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo?text=u", "X-Request-Id", "the-id")
		s.want(`{"text":"u"}`)
		s.closed(websocket.StatusNormalClosure)
		wantHeader(t, s.resp.Header, "X-Request-Id", "the-id")
		r.WaitLog(`"request_id":"the-id"`, `"protocol":"websocket"`, `"code":"OK"`)
	})
	t.Run("metric", func(t *testing.T) {
		if n := r.Metric("rpcgate_calls_total", "protocol", "websocket"); n < 6 {
			t.Errorf("%v calls are counted", n)
		}
	})
}

// Path and query are bound to each message, and a message cannot get around the path.
func TestWebSocketBindsEachMessage(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, compact, `routes:
  - {method: testbackend.Echo/Bidi, http: {get: "/talk/{text}"}}
`)
	s := r.openSocket(t, "/talk/blue?flag=true")
	s.send(`{"number":"1"}`)
	s.want(`{"text":"blue","number":"1","flag":true}`)
	s.send(`{"number":"2","text":"red"}`)
	s.want(`{"text":"blue","number":"2","flag":true}`)
	s.send("")
	s.closed(websocket.StatusNormalClosure)
	b.Take()
}

func TestWebSocketFailures(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, compact, "http: {address: '127.0.0.1:0', max_body_size: 64KiB}\n")
	long := strings.Repeat("é", 100)
	b.Handle("Echo/Unary", func(*testbackend.Stream) error { return status.Error(codes.NotFound, long) })
	b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
		msg, _ := s.Recv()
		_ = s.Send(msg)
		return status.Error(codes.Aborted, "enough")
	})
	t.Run("unary", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo?text=u")
		sameJSON(t, s.next(), `{"error":{"code":5,"message":"`+long+`","details":[]}}`)
		if reason := s.closed(4005); reason != strings.Repeat("é", 61) {
			t.Errorf("closed with %q", reason)
		}
	})
	t.Run("after a message", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo:stream?text=q")
		s.want(`{"text":"q"}`)
		s.failed(codes.Aborted, "")
	})
	t.Run("bad JSON", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo:chat")
		s.send(`{"text":`)
		s.failed(codes.InvalidArgument, "BAD_REQUEST")
	})
	t.Run("binary", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo:chat")
		if err := s.Write(limited(t), websocket.MessageBinary, []byte("x")); err != nil {
			t.Fatal(err)
		}
		s.failed(codes.InvalidArgument, "BAD_MESSAGE")
	})
	t.Run("too large", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo:chat")
		s.send(`{"text":"` + strings.Repeat("x", 65<<10) + `"}`)
		s.failed(codes.ResourceExhausted, "BODY_TOO_LARGE")
	})
	t.Run("as large as may be", func(t *testing.T) {
		s := r.openSocket(t, "/v1/echo:chat")
		text := `{"text":"` + strings.Repeat("x", 64<<10-11) + `"}`
		s.send(text)
		s.want(text)
	})
	t.Run("one message too many", func(t *testing.T) {
		begun, _ := holdCalls(b, "Echo/ServerStream")
		s := r.openSocket(t, "/v1/echo:stream?text=q")
		waitFor(t, begun, "the call")
		s.send(`{}`)
		s.failed(codes.Unimplemented, "BAD_MESSAGE")
	})
	t.Run("deadline", func(t *testing.T) {
		holdCalls(b, "Echo/Bidi")
		s := r.openSocket(t, "/v1/echo:chat", "X-Request-Timeout", "200ms")
		s.send("{}")
		s.failed(codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
	})
}

// A WebSocket that hangs up ends the backend's call, however it does so.
func TestWebSocketHangUp(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, method := range []string{"Echo/Bidi", "Echo/ServerStream"} {
		for name, leave := range map[string]func(*socket){
			"close": func(s *socket) { _ = s.Close(websocket.StatusGoingAway, "") },
			"gone":  func(s *socket) { _ = s.CloseNow() },
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				begun, ended := holdCalls(b, method)
				target := "/v1/echo:chat"
				if method == "Echo/ServerStream" {
					target = "/v1/echo:stream"
				}
				s := r.openSocket(t, target)
				if method == "Echo/Bidi" {
					s.send("{}")
				}
				waitFor(t, begun, "the call")
				leave(s)
				if err := waitFor(t, ended, "the backend's call to end"); !errors.Is(err, context.Canceled) {
					t.Errorf("it ended with %v", err)
				}
			})
		}
	}
}

func TestWebSocketCredentials(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	entry := "rpcgate.token." + base64.RawURLEncoding.EncodeToString([]byte(r.app+"."+r.token))
	s, err := r.trySocket(t, "/v1/echo?text=u", []string{"rpcgate.json", entry})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.resp.Header.Values("Sec-Websocket-Protocol"); len(got) != 1 || got[0] != "rpcgate.json" {
		t.Errorf("selected %q", got)
	}
	s.next()
	md := only(t, b).Metadata
	wantMetadata(t, md, "token", r.token)
	for key, values := range md {
		if key != "token" && strings.Contains(strings.Join(values, " "), r.token) || strings.Contains(strings.Join(values, " "), entry) {
			t.Errorf("the secret went to the backend as %s", key)
		}
	}

	for name, tc := range map[string]struct {
		protocols []string
		header    []string
		reason    string
	}{
		"none":       {nil, nil, "CREDENTIAL_MISSING"},
		"no base64":  {[]string{"rpcgate.json", "rpcgate.token.~"}, nil, "CREDENTIAL_MALFORMED"},
		"wrong":      {[]string{"rpcgate.token." + base64.RawURLEncoding.EncodeToString([]byte("acme.wrong"))}, nil, "TOKEN_INVALID"},
		"twice":      {[]string{entry, entry}, nil, "CREDENTIAL_MALFORMED"},
		"both":       {[]string{entry}, []string{"Authorization", r.bearer()}, "CREDENTIAL_MALFORMED"},
		"bad header": {nil, []string{"Authorization", "Bearer nobody.x"}, "TOKEN_INVALID"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := r.trySocket(t, "/v1/echo", tc.protocols, tc.header...)
			if err == nil {
				t.Fatal("it was opened")
			}
			body, _ := io.ReadAll(s.resp.Body)
			answer{Status: s.resp.StatusCode, Header: s.resp.Header, Body: string(body)}.failed(t, 401, codes.Unauthenticated, tc.reason)
		})
	}
	untouched(t, b)
	if out := r.Output(); strings.Contains(out, r.token) || strings.Contains(out, entry) {
		t.Error("the secret is in the log")
	}
}

func TestWebSocketRefusedHandshakes(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", `http:
  address: 127.0.0.1:0
  cors: {allowed_origins: ["https://*.pages.example"]}
  streams: {allowed_origins: ["https://chat.example"]}
`)
	for origin, want := range map[string]bool{
		"https://a.pages.example": true, "https://chat.example": true, "http://" + r.HTTP: true, "https://" + r.HTTP: true,
		"https://evil.example": false, "null": false, "https://chat.example.evil.example": false, "https://CHAT.example": true,
	} {
		s, err := r.trySocket(t, "/v1/echo", nil, "Authorization", r.bearer(), "Origin", origin)
		if want != (err == nil) {
			t.Errorf("origin %s: %v", origin, err)
		}
		if err == nil {
			s.next()
			s.closed(websocket.StatusNormalClosure)
		} else {
			body, _ := io.ReadAll(s.resp.Body)
			answer{Status: s.resp.StatusCode, Header: s.resp.Header, Body: string(body)}.failed(t, 403, codes.PermissionDenied, "ORIGIN_NOT_ALLOWED")
		}
	}
	b.Take()

	key := "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	for name, tc := range map[string]struct {
		head   string
		status int
		reason string
	}{
		"version":       {"Connection: Upgrade\r\nSec-WebSocket-Version: 8\r\n" + key, 426, "BAD_HANDSHAKE"},
		"no connection": {"Sec-WebSocket-Version: 13\r\n" + key, 400, "BAD_HANDSHAKE"},
		"no key":        {"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n", 400, "BAD_HANDSHAKE"},
		"short key":     {"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n", 400, "BAD_HANDSHAKE"},
		"a body":        {"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nContent-Length: 2\r\n" + key, 400, "BAD_HANDSHAKE"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := rawHTTP(t, r, "GET /v1/echo HTTP/1.1\r\nHost: gateway\r\nUpgrade: websocket\r\nAuthorization: "+r.bearer()+"\r\n"+tc.head+"\r\n{}")
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.status || !strings.Contains(string(body), tc.reason) {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
	if s, err := r.trySocket(t, "/nowhere", nil, "Authorization", r.bearer()); err == nil || s.resp.StatusCode != 404 {
		t.Errorf("a path without a route: %v", err)
	}
	untouched(t, b)
}

// What is no WebSocket frame ends the call as bad input, and nothing else.
func TestWebSocketBadFrames(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for name, frames := range map[string]string{
		"reserved bits": "\xf1\x80\x00\x00\x00\x00",
		"opcode":        "\x83\x80\x00\x00\x00\x00",
		"not masked":    "\x81\x02{}",
		"continuation":  "\x80\x82\x00\x00\x00\x00{}",
		"long ping":     "\x89\xfe\x00\x7e\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			begun, ended := holdCalls(b, "Echo/Bidi")
			conn := r.rawSocket(t, "/v1/echo:chat")
			if _, err := io.WriteString(conn, emptyMessage); err != nil {
				t.Fatal(err)
			}
			waitFor(t, begun, "the call")
			if _, err := io.WriteString(conn, frames); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(conn)
			if !strings.Contains(string(rest), "\x03\xea") {
				t.Errorf("it was answered with %q, which has no close with 1002", rest)
			}
			if err := waitFor(t, ended, "the backend's call to end"); !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
	r.WaitLog(`"reason":"BAD_FRAME"`, `"protocol":"websocket"`)
}

// emptyMessage is a text frame of {}.
const emptyMessage = "\x81\x82\x00\x00\x00\x00{}"

// rawSocket opens a WebSocket and leaves its frames to the test.
func (r *rig) rawSocket(t testing.TB, target string) net.Conn {
	t.Helper()
	conn := rawConn(t, r.HTTP)
	_, err := io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: gateway\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAuthorization: "+r.bearer()+"\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 0, 1024)
	for one := make([]byte, 1); !strings.HasSuffix(string(head), "\r\n\r\n"); head = append(head, one...) {
		if _, err := io.ReadFull(conn, one); err != nil {
			t.Fatalf("reading the handshake's answer after %q: %v", head, err)
		}
	}
	if !strings.HasPrefix(string(head), "HTTP/1.1 101 ") {
		t.Fatalf("the handshake gave %q", head)
	}
	return conn
}

// A drain lets calls over WebSockets end, and tells those that it cuts off.
func TestWebSocketDrain(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, compact, "shutdown: {delay: 0s, drain_timeout: 2s}\n")
	finishing, held := r.openSocket(t, "/v1/echo:chat"), r.openSocket(t, "/v1/echo:chat")
	for _, s := range []*socket{finishing, held} {
		s.send(`{"text":"a"}`)
		s.want(`{"text":"a"}`)
	}
	stopped := make(chan int, 1)
	go func() { stopped <- r.Stop() }()
	r.WaitLog(`"msg":"draining"`)
	finishing.send(`{"text":"b"}`)
	finishing.want(`{"text":"b"}`)
	finishing.send("")
	finishing.closed(websocket.StatusNormalClosure)
	if text := held.next(); !strings.Contains(text, "DRAINING") {
		t.Errorf("the last frame is %s", text)
	}
	held.closed(websocket.StatusServiceRestart)
	if exit := waitFor(t, stopped, "the gateway's end"); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
	b.Take()
}

// Errors and messages have the route's format.
func TestWebSocketEnvelope(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, compact+"\nerrors: envelope", "")
	s := r.openSocket(t, "/v1/echo:chat")
	s.send(`{"text":"a"}`)
	s.want(`{"code":0,"msg":"ok","data":{"text":"a"}}`)
	s.send(`{`)
	if text := s.next(); !strings.HasPrefix(text, `{"code":3,"msg":`) {
		t.Errorf("the last frame is %s", text)
	}
	s.closed(4003)
}
