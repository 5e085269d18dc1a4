// Package shopserver owns the demo backend: shop.UserService and
// shop.OrderService over a bounded store in memory, as an ordinary gRPC server
// with the standard health and reflection services. It knows nothing of the
// gateway.
package shopserver

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// Options of a shop server. The zero value asks for no credential.
type Options struct {
	// The app and token that every call of the shop's own services must carry in
	// metadata `app` and `token`, as zRPC servers with Auth check it. Empty App: no check.
	App, Token string
	// How long calls in flight may take to finish once the context has ended; 0: as long as they want.
	DrainTimeout time.Duration
	// Further options of the gRPC server; interceptors are run inside the credential's check.
	ServerOptions []grpc.ServerOption
}

// minPingInterval is how often clients may ping: more often than grpc-go's own
// limit of five minutes, under which it cuts off clients with shorter keepalive.
const minPingInterval = 5 * time.Second

// Serve serves a new, empty shop on the listener until ctx ends, then finishes
// the calls in flight and returns nil. It closes the listener.
func Serve(ctx context.Context, lis net.Listener, o Options) error {
	shop := New()
	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: minPingInterval, PermitWithoutStream: true,
		}),
		grpc.ChainUnaryInterceptor(o.unary),
		grpc.ChainStreamInterceptor(o.stream),
	}, o.ServerOptions...)...)
	shop.Register(server)
	healthServer := health.NewServer()
	for _, name := range []string{shoppb.UserService_ServiceDesc.ServiceName, shoppb.OrderService_ServiceDesc.ServiceName} {
		healthServer.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(server, healthServer)
	reflection.Register(server)

	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving on %s: %w", lis.Addr(), err)
	case <-ctx.Done():
	}

	healthServer.Shutdown()
	shop.Close()
	if o.DrainTimeout > 0 {
		defer time.AfterFunc(o.DrainTimeout, server.Stop).Stop()
	}
	server.GracefulStop()
	return <-served
}

func (o Options) unary(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := o.check(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, r)
}

func (o Options) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := o.check(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, stream)
}

// check does what a zRPC server does with Auth on. Health and reflection stay
// open, as they are for probes and tools.
func (o Options) check(ctx context.Context, fullMethod string) error {
	if o.App == "" || !strings.HasPrefix(fullMethod, "/shop.") {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	app, token := md.Get("app"), md.Get("token")
	if len(app) != 1 || len(token) != 1 {
		return status.Error(codes.Unauthenticated, "app and token must be given, once each")
	}
	sameApp := subtle.ConstantTimeCompare([]byte(app[0]), []byte(o.App))
	sameToken := subtle.ConstantTimeCompare([]byte(token[0]), []byte(o.Token))
	if sameApp&sameToken != 1 {
		return status.Error(codes.Unauthenticated, "unknown app or wrong token")
	}
	return nil
}
