package rpcproxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// serveTyped serves a unary method and a stream, which answers with headers
// first, whose requests are protobuf. change alters each request on its way to
// grpc-go's server.
func serveTyped(t *testing.T, change func(*http.Request)) string {
	t.Helper()
	s := grpc.NewServer(grpc.MaxRecvMsgSize(1000))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Service",
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(_ any, _ context.Context,
			decode func(any) error, _ grpc.UnaryServerInterceptor,
		) (any, error) {
			in := new(wrapperspb.StringValue)
			return in, decode(in)
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", ClientStreams: true, ServerStreams: true,
			Handler: func(_ any, ss grpc.ServerStream) error {
				if err := ss.SendHeader(metadata.Pairs("h", "1")); err != nil {
					return err
				}
				return ss.RecvMsg(new(wrapperspb.StringValue))
			}}},
	}, nil)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &http.Server{Protocols: protocols, ReadHeaderTimeout: patience, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			change(r)
			s.ServeHTTP(w, r)
		})}
	served := make(chan error)
	go func() { served <- h.Serve(l) }()
	t.Cleanup(func() { _ = h.Close(); <-served; s.Stop() })
	return l.Addr().String()
}

// One app's messages that the backend's gRPC library cannot read leave the
// breaker closed for the others.
func TestBreakerIgnoresWhatIsAboutTheRequest(t *testing.T) {
	body := func(encoding, data string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Grpc-Encoding", encoding)
			r.Body = io.NopCloser(bytes.NewReader([]byte(data)))
		}
	}
	for name, tt := range map[string]struct {
		request string
		change  func(*http.Request)
		code    codes.Code
	}{
		"unparsable":            {"\xff\xff\xff", func(*http.Request) {}, codes.Internal},
		"too large":             {strings.Repeat("x", 2000), func(*http.Request) {}, codes.ResourceExhausted},
		"unknown compression":   {"", body("none-such", "\x01\x00\x00\x00\x01x"), codes.Unimplemented},
		"not gzip":              {"", body("gzip", "\x01\x00\x00\x00\x01x"), codes.Internal},
		"cut off gzip":          {"", body("gzip", "\x01\x00\x00\x00\x0a\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), codes.Internal},
		"compressed, not named": {"", body("identity", "\x01\x00\x00\x00\x01x"), codes.Internal},
	} {
		for _, r := range []Request{
			{Method: "/test.Service/Unary"},
			{Method: "/test.Service/Stream", ClientStreams: true, ServerStreams: true},
		} {
			t.Run(name+"/"+road(r), func(t *testing.T) {
				b := newBackend(t, serveTyped(t, tt.change), thresholdBreaker, Options{})
				for range 10 {
					err := b.Forward(testContext(t), &r, &exchange{requests: []string{tt.request}})
					if status.Code(err) != tt.code {
						t.Fatalf("Forward: %T %v, want %v", err, err, tt.code)
					}
				}
			})
		}
	}
}

// The application's own errors with these codes count.
func TestAboutRequestIsNotTheApplication(t *testing.T) {
	for _, s := range []*status.Status{
		status.New(codes.Internal, "sick"),
		status.New(codes.Internal, "failed to unmarshal the stored record"),
		status.New(codes.Unimplemented, "unknown method Method for service test.Service"),
		status.New(codes.ResourceExhausted, "out of memory"),
		status.New(codes.Unavailable, "grpc: failed to unmarshal the received message: x"),
	} {
		if aboutRequest(s) {
			t.Errorf("%v is taken for a fault of the request", s)
		}
	}
}
