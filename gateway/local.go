package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rpcgate/rpcgate/rpcproxy"
)

// localServices is a [Forwarder] to gRPC services in this process. Here messages
// are no longer bytes.
type localServices struct {
	methods       map[string]localMethod // by full name, "/package.Service/Method"
	unary         grpc.UnaryServerInterceptor
	interceptFlow grpc.StreamServerInterceptor
}

// localMethod is one of a service's; one of the two handlers is nil.
type localMethod struct {
	service any
	unary   grpc.MethodHandler
	flow    *grpc.StreamDesc
}

func newLocalServices(s *AdminServices) *localServices {
	l := &localServices{methods: map[string]localMethod{}, unary: s.Unary, interceptFlow: s.Stream}
	s.Register(l)
	return l
}

// RegisterService implements [grpc.ServiceRegistrar].
func (l *localServices) RegisterService(d *grpc.ServiceDesc, service any) {
	for i := range d.Methods {
		l.methods["/"+d.ServiceName+"/"+d.Methods[i].MethodName] = localMethod{service: service, unary: d.Methods[i].Handler}
	}
	for i := range d.Streams {
		l.methods["/"+d.ServiceName+"/"+d.Streams[i].StreamName] = localMethod{service: service, flow: &d.Streams[i]}
	}
}

// Forward implements [Forwarder].
func (l *localServices) Forward(ctx context.Context, r *rpcproxy.Request, ex rpcproxy.Exchange) error {
	m, ok := l.methods[r.Method]
	if !ok {
		return fmt.Errorf("no service has the method %s", r.Method)
	}
	s := &localStream{ctx: ctx, ex: ex}
	var err error
	if m.unary != nil {
		err = l.call(ctx, m, s)
	} else if handle := m.flow.Handler; l.interceptFlow == nil {
		err = handle(m.service, s)
	} else {
		info := &grpc.StreamServerInfo{FullMethod: r.Method, IsClientStream: m.flow.ClientStreams, IsServerStream: m.flow.ServerStreams}
		err = l.interceptFlow(m.service, s, info, handle)
	}
	if s.trailer != nil {
		ex.SetTrailer(s.trailer)
	}
	return s.outcome(err)
}

// call serves a call of one request and one response.
func (l *localServices) call(ctx context.Context, m localMethod, s *localStream) error {
	response, err := m.unary(m.service, ctx, s.RecvMsg, l.unary)
	if err != nil {
		return err
	}
	return s.SendMsg(response)
}

// localStream is a service's side of a call. It is used by one goroutine.
type localStream struct {
	ctx     context.Context //nolint:containedctx // grpc.ServerStream has it
	ex      rpcproxy.Exchange
	header  metadata.MD
	trailer metadata.MD
	begun   bool
	broken  error // the exchange's own failure
}

// outcome tells a service's status from the failures of the caller's side and of
// the service.
func (s *localStream) outcome(err error) error {
	if s.broken != nil {
		return s.broken
	}
	if err == nil {
		return s.SendHeader(nil)
	}
	if own, ok := status.FromError(err); ok {
		return &rpcproxy.StatusError{Status: own}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &callError{Code: codes.Internal, Reason: "INTERNAL", Message: "the gateway failed", cause: err}
}

func (s *localStream) Context() context.Context { return s.ctx }

func (s *localStream) SetHeader(md metadata.MD) error {
	s.header = metadata.Join(s.header, md)
	return nil
}

func (s *localStream) SendHeader(md metadata.MD) error {
	if s.begun {
		return nil
	}
	s.begun = true
	return s.ex.SendHeader(metadata.Join(s.header, md))
}

func (s *localStream) SetTrailer(md metadata.MD) { s.trailer = metadata.Join(s.trailer, md) }

// RecvMsg reads the caller's next message, io.EOF after the last. It is what a
// unary handler decodes with, too.
func (s *localStream) RecvMsg(m any) error {
	into, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no protobuf message", m)
	}
	msg, err := s.ex.RecvMsg()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			s.broken = &rpcproxy.ExchangeError{Err: err}
		}
		return err
	}
	defer msg.Free()
	if err := proto.Unmarshal(msg.Materialize(), into); err != nil {
		s.broken = badRequest("BAD_MESSAGE", "the message is not what the method takes")
		return s.broken
	}
	return nil
}

// SendMsg sends the caller a message.
func (s *localStream) SendMsg(m any) error {
	from, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no protobuf message", m)
	}
	wire, err := proto.Marshal(from)
	if err == nil {
		err = s.SendHeader(nil)
	}
	if err != nil {
		return err
	}
	if err := s.ex.SendMsg(mem.BufferSlice{mem.SliceBuffer(wire)}); err != nil {
		s.broken = &rpcproxy.ExchangeError{Err: err}
		return err
	}
	return nil
}
