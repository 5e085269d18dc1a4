package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// Whoever begins a message has to end it, and to begin the only one there is.
func TestWebSocketSlowSender(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "http: {address: '127.0.0.1:0', body_timeout: 300ms, streams: {ping_interval: 0s}}\n")
	for name, tc := range map[string]struct{ target, frames string }{
		"half a message":    {"/v1/echo:chat", "\x81\x84\x00\x00\x00\x00{}"},
		"endless fragments": {"/v1/echo:chat", "\x01\x80\x00\x00\x00\x00" + strings.Repeat("\x00\x80\x00\x00\x00\x00", 10000)},
		"nothing":           {"/testbackend.Echo/Unary", ""},
	} {
		t.Run(name, func(t *testing.T) {
			conn := r.rawSocket(t, tc.target)
			if _, err := io.WriteString(conn, tc.frames); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(conn)
			if !strings.Contains(string(rest), "BODY_TIMEOUT") || !strings.Contains(string(rest), "\x0f\xa4") { // 4004
				t.Errorf("it was answered with %q", rest)
			}
		})
	}
	b.Take()
}

// Neither a flood of pings, which are answered one by one, nor one of
// connections leaves anything behind; others are served meanwhile.
func TestWebSocketFloods(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", quiet)
	s := r.openSocket(t, "/v1/echo")
	s.next()
	s.closed(websocket.StatusNormalClosure)
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
	before := r.footprint(t)

	conn := r.rawSocket(t, "/v1/echo:chat")
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	ping := strings.Repeat("\x89\xfd\x00\x00\x00\x00"+strings.Repeat("x", 125), 1000)
	for { // until it is taken no more, as nobody reads the answers
		if _, err := io.WriteString(conn, ping); err != nil {
			break
		}
	}
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
	_ = conn.Close()

	var conns []net.Conn
	for range 300 {
		conn := r.rawSocket(t, "/v1/echo:chat")
		if _, err := io.WriteString(conn, emptyMessage); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
	if got := r.liveHeap(); got > 96<<20 {
		t.Errorf("the gateway has %d MiB of memory in use", got>>20)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	r.awaitFootprint(t, before)
	b.Take()
}

// A caller that does not answer pings is gone; one that the backend keeps from
// being heard is not.
func TestWebSocketPings(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "http: {address: '127.0.0.1:0', streams: {ping_interval: 400ms}}\n")
	begun, ended := holdCalls(b, "Echo/Bidi")
	conn := r.rawSocket(t, "/v1/echo:chat")
	if _, err := io.WriteString(conn, emptyMessage); err != nil {
		t.Fatal(err)
	}
	waitFor(t, begun, "the call")
	if err := waitFor(t, ended, "the backend's call to end"); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	rest, _ := io.ReadAll(conn)
	if !strings.HasPrefix(string(rest), "\x89\x011") {
		t.Errorf("it began with %q, which is no ping", rest)
	}

	// This one's pings wait behind messages that the backend does not take.
	release := make(chan struct{})
	b.Handle("Echo/Bidi", func(s *testbackend.Stream) error {
		select {
		case <-release:
		case <-s.Context().Done():
			return s.Context().Err()
		}
		for {
			if _, err := s.Recv(); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
	s := r.openSocket(t, "/v1/echo:chat")
	go func() {
		text := `{"text":"` + strings.Repeat("x", 64<<10) + `"}`
		// Enough to fill what the backend takes unread, and not what the sockets
		// hold: this client could not answer pings while it is kept from writing.
		for range 5 {
			_ = s.Write(context.Background(), websocket.MessageText, []byte(text))
		}
		_ = s.Write(context.Background(), websocket.MessageText, nil)
	}()
	end := make(chan error, 1)
	go func() {
		_, _, err := s.Read(limited(t))
		end <- err
	}()
	for range 4 {
		waitFor(t, s.pings, "a ping")
	}
	close(release)
	if err := waitFor(t, end, "the end"); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("it ended with %v", err)
	}
}

// A caller that does not read is waited for, and the backend with it; memory
// stays where it is.
func TestWebSocketSlowReader(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	sent := make(chan int, 1)
	ended := make(chan error, 1)
	b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
		msg := append([]byte{0x0a, 0x80, 0x80, 0x04}, make([]byte, 64<<10)...) // text of 64 KiB
		for i := 4; i < len(msg); i++ {
			msg[i] = 'x'
		}
		for i := 0; ; i++ {
			select {
			case sent <- i:
			default:
				select {
				case <-sent:
				default:
				}
				sent <- i
			}
			if err := s.Send(msg); err != nil {
				ended <- err
				return err
			}
		}
	})
	conn := r.rawSocket(t, "/v1/echo:stream")
	last, same := -1, 0
	gatewaytest.Eventually(t, func() error {
		n := last
		select {
		case n = <-sent:
		default:
		}
		if n != last {
			last, same = n, 0
		} else {
			same++
		}
		if last < 1 || same < 20 {
			return fmt.Errorf("%d messages were taken, and it goes on", last)
		}
		return nil
	})
	if got := r.liveHeap(); got > 96<<20 {
		t.Errorf("the gateway has %d MiB of memory in use", got>>20)
	}
	if last > 1000 {
		t.Errorf("%d messages of 64 KiB were taken for a caller that reads none", last)
	}
	_ = conn.Close()
	if err := waitFor(t, ended, "the backend's call to end"); err == nil {
		t.Error("it ended well")
	}
}
