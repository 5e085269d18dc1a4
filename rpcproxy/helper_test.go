package rpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
)

func TestMain(m *testing.M) {
	balancer.Register()
	goleak.VerifyTestMain(m)
}

const testMethod = "/test.Service/Method"

// patience is how long tests wait for what must happen.
const patience = 10 * time.Second

// server is a backend whose every method is one handler on raw frames.
type server struct {
	addr string
	grpc *grpc.Server
	done chan struct{}

	mu       sync.Mutex
	accepted int
}

func serve(t testing.TB, h grpc.StreamHandler, o ...grpc.ServerOption) *server {
	t.Helper()
	return serveOn(t, "127.0.0.1:0", h, o...)
}

func serveOn(t testing.TB, addr string, h grpc.StreamHandler, o ...grpc.ServerOption) *server {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		addr: l.Addr().String(),
		grpc: grpc.NewServer(append(o, grpc.ForceServerCodecV2(RawCodec()), grpc.UnknownServiceHandler(withoutHealth(h)))...),
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		_ = s.grpc.Serve(countingListener{l, s})
	}()
	t.Cleanup(s.stop)
	return s
}

// withoutHealth leaves out grpc.health.v1, which most servers do not have.
func withoutHealth(h grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, s grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(s); method == grpc_health_v1.Health_Watch_FullMethodName {
			return status.Error(codes.Unimplemented, "no health here")
		}
		return h(srv, s)
	}
}

func (s *server) stop() {
	s.grpc.Stop()
	<-s.done
}

// conns is how many connections were accepted.
func (s *server) conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

type countingListener struct {
	net.Listener
	s *server
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.s.mu.Lock()
		l.s.accepted++
		l.s.mu.Unlock()
	}
	return c, err
}

// echo answers each message with itself, until the caller half-closes.
func echo(_ any, s grpc.ServerStream) error {
	for {
		var f Frame
		err := s.RecvMsg(&f)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = s.SendMsg(&f)
		f.Free()
		if err != nil {
			return err
		}
	}
}

// answerWith answers with the text that f returns.
func answerWith(f func(ctx context.Context) (string, error)) grpc.StreamHandler {
	return func(_ any, s grpc.ServerStream) error {
		var in Frame
		if err := s.RecvMsg(&in); err != nil {
			return err
		}
		in.Free()
		text, err := f(s.Context())
		if err != nil {
			return err
		}
		return s.SendMsg(&Frame{Data: message(text)})
	}
}

func newBackend(t testing.TB, addr string, change func(*config.Backend), o Options) *Backend {
	t.Helper()
	cfg := config.DefaultBackend("test")
	cfg.Endpoints = []string{addr}
	cfg.Timeout = patience       // the default is too short for a busy machine
	cfg.HealthCheck.Mode = "off" // servers count what reaches them
	if change != nil {
		change(&cfg)
	}
	b, err := New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func message(text string) mem.BufferSlice { return mem.BufferSlice{mem.SliceBuffer(text)} }

// exchange is a caller. Its requests are sent on, then it half-closes, unless
// recv says otherwise.
type exchange struct {
	requests []string
	recv     func() (mem.BufferSlice, error) // in place of requests
	onHeader func(metadata.MD) error
	onMsg    func(string) error

	header   metadata.MD
	headers  int
	messages []string
	trailer  metadata.MD
}

func (e *exchange) RecvMsg() (mem.BufferSlice, error) {
	if e.recv != nil {
		return e.recv()
	}
	if len(e.requests) == 0 {
		return nil, io.EOF
	}
	m := message(e.requests[0])
	e.requests = e.requests[1:]
	return m, nil
}

func (e *exchange) SendHeader(md metadata.MD) error {
	e.headers++
	if e.headers > 1 || len(e.messages) > 0 {
		return fmt.Errorf("header number %d after %d messages", e.headers, len(e.messages))
	}
	e.header = md
	if e.onHeader != nil {
		return e.onHeader(md)
	}
	return nil
}

func (e *exchange) SendMsg(m mem.BufferSlice) error {
	text := string(m.Materialize())
	m.Free()
	if e.onMsg != nil {
		if err := e.onMsg(text); err != nil {
			return err
		}
	}
	e.messages = append(e.messages, text)
	return nil
}

func (e *exchange) SetTrailer(md metadata.MD) { e.trailer = md }

// unary makes a unary call and returns the answer.
func unary(ctx context.Context, b *Backend, c Credential, request string) (string, error) {
	ex := &exchange{requests: []string{request}}
	err := b.Forward(ctx, &Request{Method: testMethod, Credential: c}, ex)
	if err != nil {
		return "", err
	}
	if len(ex.messages) != 1 {
		return "", fmt.Errorf("%d answers", len(ex.messages))
	}
	return ex.messages[0], nil
}

// waitFor waits until the condition holds.
func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx := testContext(t)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func wantMD(t *testing.T, what string, md metadata.MD, key string, values ...string) {
	t.Helper()
	if got := md[key]; !slices.Equal(got, values) {
		t.Errorf("%s %s = %q, want %q", what, key, got, values)
	}
}

// strictExchange hands over the messages as they are.
type strictExchange struct {
	exchange
	send func(mem.BufferSlice) error
}

func (e *strictExchange) SendMsg(m mem.BufferSlice) error { return e.send(m) }

// blockingDialer never connects.
func blockingDialer(ctx context.Context, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
