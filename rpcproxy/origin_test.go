package rpcproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

// rawServer speaks HTTP/2 frames: answer is called for each request's headers.
type rawServer struct {
	addr string
}

type rawStream struct {
	conn   net.Conn
	framer *http2.Framer
	id     uint32
}

func serveRaw(t *testing.T, answer func(s *rawStream)) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveRawConn(c, answer) })
		}
	})
	return &rawServer{l.Addr().String()}
}

func serveRawConn(c net.Conn, answer func(*rawStream)) {
	defer func() { _ = c.Close() }()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = f.WritePing(true, frame.Data)
			}
		case *http2.HeadersFrame:
			answer(&rawStream{c, f, frame.StreamID})
		}
	}
}

func (s *rawStream) headers(end bool, fields ...string) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = s.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end,
	})
}

func (s *rawStream) begin() { s.headers(false, ":status", "200", "content-type", "application/grpc") }

func (s *rawStream) message(n int) {
	_ = s.framer.WriteData(s.id, false, append([]byte{0, 0, 0, 0, byte(n)}, make([]byte, n)...))
}

// TestOrigin makes a backend break its answers in each way, before and after
// its headers, and wants none of it to be taken for the backend's own status.
func TestOrigin(t *testing.T) {
	reset := func(code http2.ErrCode) func(*rawStream) {
		return func(s *rawStream) { _ = s.framer.WriteRSTStream(s.id, code) }
	}
	for name, tt := range map[string]struct {
		answer      func(*rawStream)
		unreachable bool
		code        codes.Code // of the LocalError
		// Only these; nil: all of before and after headers, unary and stream.
		headersOnly bool
		// The other end says that it has not looked at the request, before headers.
		leftOut bool
	}{
		"connection lost":     {answer: func(s *rawStream) { _ = s.conn.Close() }, unreachable: true},
		"reset, internal":     {answer: reset(http2.ErrCodeInternal), code: codes.Internal},
		"reset, refused":      {answer: reset(http2.ErrCodeRefusedStream), unreachable: true, leftOut: true},
		"reset, cancel":       {answer: reset(http2.ErrCodeCancel), code: codes.Canceled},
		"reset, calm":         {answer: reset(http2.ErrCodeEnhanceYourCalm), code: codes.ResourceExhausted},
		"reset, security":     {answer: reset(http2.ErrCodeInadequateSecurity), code: codes.PermissionDenied},
		"reset, unknown code": {answer: reset(4711), code: codes.Unknown},
		"goaway": {answer: func(s *rawStream) {
			_ = s.framer.WriteGoAway(0, http2.ErrCodeNo, []byte("restart"))
			_ = s.conn.Close()
		}, unreachable: true, leftOut: true},
		"no trailers": {answer: func(s *rawStream) { _ = s.framer.WriteData(s.id, true, nil) }, code: codes.Internal},
		"malformed status": {answer: func(s *rawStream) {
			s.headers(true, "grpc-status", "x")
		}, code: codes.Unknown, headersOnly: true},
		"malformed frame": {answer: func(s *rawStream) {
			s.headers(true, "grpc-status", "0", ":status", "200")
		}, code: codes.Internal, headersOnly: true},
		"headers in the middle": {answer: func(s *rawStream) { s.headers(false, "x", "y") }, code: codes.Internal, headersOnly: true},
		"half a message": {answer: func(s *rawStream) {
			_ = s.framer.WriteData(s.id, false, []byte{0, 0, 0, 0, 9, 1})
			s.headers(true, "grpc-status", "0")
		}, code: codes.Internal, headersOnly: true},
		"OK without message": {answer: func(s *rawStream) {
			s.headers(true, "grpc-status", "0")
		}, code: codes.Internal, headersOnly: true},
		"two messages": {answer: func(s *rawStream) {
			s.message(1)
			s.message(2)
			s.headers(true, "grpc-status", "0", "t", "1")
		}, code: codes.Internal, headersOnly: true},
		"message too large": {answer: func(s *rawStream) {
			s.message(200)
			s.headers(true, "grpc-status", "0", "t", "1")
		}, code: codes.ResourceExhausted, headersOnly: true},
		"compressed, but how": {answer: func(s *rawStream) {
			_ = s.framer.WriteData(s.id, false, []byte{1, 0, 0, 0, 1, 1})
			s.headers(true, "grpc-status", "0")
		}, code: codes.Internal, headersOnly: true},
	} {
		for _, begun := range []bool{false, true} {
			if tt.headersOnly && !begun {
				continue
			}
			s := serveRaw(t, func(s *rawStream) {
				if begun {
					s.begin()
				}
				tt.answer(s)
			})
			for _, r := range []Request{{Method: testMethod}, {Method: testMethod, ClientStreams: true}} {
				t.Run(fmt.Sprintf("%s/begun %v/%s", name, begun, road(r)), func(t *testing.T) {
					b := newBackend(t, s.addr, func(c *config.Backend) { c.Conn.MaxReceiveSize = 100 }, Options{})
					ex := &exchange{requests: []string{"x"}}
					err := b.Forward(testContext(t), &r, ex)
					if lost, ok := errors.AsType[*UnreachableError](err); ok && tt.leftOut && !begun {
						if lost.Sent {
							t.Errorf("Forward: %v, want nothing sent", err)
						}
						return
					}
					wantLocal(t, err, tt.unreachable, tt.code)
				})
			}
		}
	}
}

func wantLocal(t *testing.T, err error, unreachable bool, code codes.Code) {
	t.Helper()
	var (
		lost  *UnreachableError
		local *LocalError
	)
	switch {
	case unreachable:
		if !errors.As(err, &lost) || !lost.Sent {
			t.Errorf("Forward: %T %v, want an UnreachableError after sending", err, err)
		}
	case !errors.As(err, &local) || local.Status.Code() != code:
		t.Errorf("Forward: %T %v, want a LocalError with %v", err, err, code)
	}
}

// An L7 proxy answers in place of the backend.
func TestAnswerThatIsNotGRPC(t *testing.T) {
	for _, tt := range []struct {
		status      int
		unreachable bool
		code        codes.Code
	}{
		{http.StatusBadGateway, true, 0},
		{http.StatusServiceUnavailable, true, 0},
		{http.StatusNotFound, false, codes.Unimplemented},
		{http.StatusForbidden, false, codes.PermissionDenied},
		{http.StatusOK, false, codes.Unknown},
	} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{Protocols: protocols, ReadHeaderTimeout: patience, Handler: http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/html")
					w.WriteHeader(tt.status)
					_, _ = io.WriteString(w, "<h1>nginx</h1>")
				})}
			served := make(chan error)
			go func() { served <- s.Serve(l) }()
			defer func() { _ = s.Close(); <-served }()
			b := newBackend(t, l.Addr().String(), nil, Options{})
			for _, r := range roads() {
				err := b.Forward(testContext(t), &r, &exchange{requests: []string{"x"}})
				wantLocal(t, err, tt.unreachable, tt.code)
				if strings.Contains(err.Error(), "nginx") || !strings.Contains(err.Error(), "text/html") {
					t.Errorf("%s: %v; want the content-type, and nothing of the body", road(r), err)
				}
				if local, ok := errors.AsType[*LocalError](err); ok && strings.Contains(local.Status.Message(), "nginx") {
					t.Errorf("%s: the body is in the status: %v", road(r), local.Status)
				}
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	b := newBackend(t, addr, nil, Options{})
	for _, r := range roads() {
		err := b.Forward(testContext(t), &r, &exchange{requests: []string{"x"}})
		var lost *UnreachableError
		if !errors.As(err, &lost) {
			t.Fatalf("%s: %T %v, want an UnreachableError", road(r), err, err)
		}
		if lost.Sent || lost.Backend != "test" || lost.Target != b.Target() {
			t.Errorf("%s: %+v", road(r), lost)
		}
		t.Log(err)
	}
	if b.Healthy() {
		t.Error("healthy")
	}
}

// The backend's process dies while a stream runs.
func TestKilledInMidStream(t *testing.T) {
	for _, r := range roads()[1:] {
		t.Run(road(r), func(t *testing.T) {
			s := serve(t, func(_ any, ss grpc.ServerStream) error {
				if err := ss.SendHeader(metadata.Pairs("h", "1")); err != nil {
					return err
				}
				<-ss.Context().Done()
				return nil
			})
			b := newBackend(t, s.addr, nil, Options{})
			ex := &exchange{requests: []string{"x"}, onHeader: func(metadata.MD) error { go s.grpc.Stop(); return nil }}
			wantLocal(t, b.Forward(testContext(t), &r, ex), true, 0)
		})
	}
}

func TestMessageTooLarge(t *testing.T) {
	s := serve(t, answerWith(func(context.Context) (string, error) { return string(make([]byte, 2000)), nil }))
	for name, change := range map[string]func(*config.Backend){
		"sent":     func(c *config.Backend) { c.Conn.MaxSendSize = 1000 },
		"received": func(c *config.Backend) { c.Conn.MaxReceiveSize = 1000 },
	} {
		for _, r := range roads() {
			t.Run(name+"/"+road(r), func(t *testing.T) {
				b := newBackend(t, s.addr, change, Options{})
				err := b.Forward(testContext(t), &r, &exchange{requests: []string{string(make([]byte, 2000))}})
				wantLocal(t, err, false, codes.ResourceExhausted)
			})
		}
	}
}

func TestBackendRestartsUnderLoad(t *testing.T) {
	ok := answerWith(func(context.Context) (string, error) { return "ok", nil })
	s := serve(t, ok)
	b := newBackend(t, s.addr, func(c *config.Backend) { c.Breaker.Kind = "off" }, Options{})
	ctx, stop := context.WithCancel(testContext(t))
	defer stop()
	var wg sync.WaitGroup
	succeeded := make(chan struct{}, 1)
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := unary(ctx, b, Credential{App: "a", Token: "t"}, "x")
				var lost *UnreachableError
				switch {
				case err == nil:
					select {
					case succeeded <- struct{}{}:
					default:
					}
				case errors.As(err, &lost), errors.Is(err, context.Canceled):
				default:
					t.Errorf("%T %v", err, err)
				}
			}
		})
	}
	await := func() {
		t.Helper()
		select {
		case <-succeeded: // may be an old one
		default:
		}
		select {
		case <-succeeded:
		case <-time.After(patience):
			t.Fatal("calls do not succeed again")
		}
	}
	await()
	for range 3 {
		s.stop()
		s = serveOn(t, s.addr, ok)
		await()
	}
	stop()
	wg.Wait()
}

func TestFromBackendNeedsEvidence(t *testing.T) {
	s := status.New(codes.NotFound, "no such user")
	if fromBackend(s, nil, metadata.MD{}) {
		t.Error("a status without header and trailer is taken for the backend's")
	}
}
