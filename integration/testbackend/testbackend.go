// Package testbackend is a gRPC backend that does what a test tells it to, one
// function a method, and remembers what reached it. Without being told it sends
// every message back. Its messages have fields of each kind; it knows nothing of
// the gateway, and shares no code with it.
package testbackend

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Server is a running backend. It ends with the test.
type Server struct {
	Addr string // host:port

	tb      testing.TB
	files   *protoregistry.Files
	server  *grpc.Server
	closing chan struct{}

	mu       sync.Mutex
	handlers map[string]Handler
	calls    []*Call
}

// Handler serves one call of a method, of whatever kind.
type Handler func(s *Stream) error

// Call is what the backend saw of one call.
type Call struct {
	Method   string // "/testbackend.Echo/Unary"
	Metadata metadata.MD
	Encoding string // how its messages were compressed; "" if they were not

	mu       sync.Mutex
	requests [][]byte
}

// Requests are the messages that came so far.
func (c *Call) Requests() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Stream is a call as its handler sees it.
type Stream struct {
	stream grpc.ServerStream
	call   *Call
}

// Context ends when the caller has gone or its deadline has passed.
func (s *Stream) Context() context.Context { return s.stream.Context() }

// SetHeader adds to the header, which goes out with the first message.
func (s *Stream) SetHeader(md metadata.MD) { _ = s.stream.SetHeader(md) }

// SendHeader sends the header at once.
func (s *Stream) SendHeader(md metadata.MD) error { return s.stream.SendHeader(md) }

// SetTrailer adds to the trailer.
func (s *Stream) SetTrailer(md metadata.MD) { s.stream.SetTrailer(md) }

// Recv returns the next message, io.EOF after the last.
func (s *Stream) Recv() ([]byte, error) {
	var f Frame
	if err := s.stream.RecvMsg(&f); err != nil {
		return nil, err
	}
	s.call.mu.Lock()
	defer s.call.mu.Unlock()
	s.call.requests = append(s.call.requests, f)
	return f, nil
}

// Forget lets go of the messages that came so far.
func (s *Stream) Forget() {
	s.call.mu.Lock()
	defer s.call.mu.Unlock()
	s.call.requests = nil
}

// Send sends a message.
func (s *Stream) Send(data []byte) error {
	f := Frame(data)
	return s.stream.SendMsg(&f)
}

// Start starts a backend with health and reflection services on a loopback
// port.
func Start(tb testing.TB, opts ...grpc.ServerOption) *Server {
	tb.Helper()
	s := &Server{tb: tb, files: compile(tb), handlers: make(map[string]Handler), closing: make(chan struct{})}
	s.server = grpc.NewServer(append([]grpc.ServerOption{
		grpc.ForceServerCodec(Codec()),
		grpc.UnknownServiceHandler(s.serve),
		grpc.MaxRecvMsgSize(64 << 20),
		grpc.WaitForHandlers(true),
	}, opts...)...)
	healthpb.RegisterHealthServer(s.server, health.NewServer())
	reflectionpb.RegisterServerReflectionServer(s.server, reflection.NewServerV1(reflection.ServerOptions{
		Services: services{}, DescriptorResolver: s.files,
	}))
	var listener net.ListenConfig
	lis, err := listener.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.Addr = lis.Addr().String()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.server.Serve(lis)
	}()
	tb.Cleanup(func() {
		close(s.closing)
		s.server.Stop()
		<-served
	})
	return s
}

// services names what the reflection service lists.
type services struct{}

func (services) GetServiceInfo() map[string]grpc.ServiceInfo {
	return map[string]grpc.ServiceInfo{
		"testbackend.Echo": {}, "testbackend.Files": {}, "testbackend.Admin": {}, "grpc.health.v1.Health": {},
	}
}

// Handle says what is done with calls of a method, "Echo/Unary", from now on.
// Nil: the messages are sent back.
func (s *Server) Handle(method string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers["/testbackend."+method] = h
}

// Closing is closed at the end of the test. Handlers that wait for anything else
// wait for this, too.
func (s *Server) Closing() <-chan struct{} { return s.closing }

// Take returns the calls since the last Take, oldest first.
func (s *Server) Take() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *Server) serve(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	md, _ := metadata.FromIncomingContext(stream.Context())
	call := &Call{Method: method, Metadata: md}
	if t, ok := grpc.ServerTransportStreamFromContext(stream.Context()).(interface{ RecvCompress() string }); ok {
		call.Encoding = t.RecvCompress()
	}
	s.mu.Lock()
	s.calls = append(s.calls, call)
	handler := s.handlers[method]
	s.mu.Unlock()
	if handler == nil {
		handler = echo
	}
	return handler(&Stream{stream: stream, call: call})
}

// echo sends back what comes; of a stream of requests with one answer the last.
func echo(s *Stream) error {
	single := s.call.Method == "/testbackend.Echo/ClientStream" || s.call.Method == "/testbackend.Files/Upload"
	var last []byte
	for {
		msg, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if last = msg; single {
			continue
		}
		if err := s.Send(msg); err != nil {
			return err
		}
	}
	if single {
		return s.Send(last)
	}
	return nil
}
