package admin

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// bufferSize is how much lies between the two ends of a connection in memory.
const bufferSize = 64 << 10

// Local is a connection to a service in this process, on behalf of one operator:
// all that a caller over the network meets, but for who may call. Close ends it.
type Local struct {
	*grpc.ClientConn
	server *grpc.Server
	served sync.WaitGroup
}

// NewLocal serves s to by.
func NewLocal(s *Service, by Operator) (*Local, error) {
	lis := bufconn.Listen(bufferSize)
	l := &Local{server: grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return s.Unary(WithOperator(ctx, by), req, info, next)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return s.Stream(srv, operatedStream{stream, WithOperator(stream.Context(), by)}, info, next)
		}),
	)}
	s.Register(l.server)
	var err error
	l.ClientConn, err = grpc.NewClient("passthrough:///local",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		return nil, fmt.Errorf("a connection in memory: %w", err)
	}
	l.served.Go(func() { _ = l.server.Serve(lis) }) // it ends with Close alone
	return l, nil
}

// Close ends the connection and the server.
func (l *Local) Close() error {
	err := l.ClientConn.Close()
	l.server.Stop()
	l.served.Wait()
	return err
}

// operatedStream is a stream on behalf of an operator.
type operatedStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // grpc.ServerStream has it
}

func (s operatedStream) Context() context.Context { return s.ctx }
