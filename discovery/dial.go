package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/rpcgate/rpcgate/config"
)

// A member that does not answer a ping within keepaliveTimeout is left for
// another. etcd itself refuses pings more often than every 5 s
// (--grpc-keepalive-min-time).
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 3 * time.Second
	maxReconnect     = 5 * time.Second

	defaultDialTimeout = 3 * time.Second
)

// Dial returns a client of the etcd that cfg names. It connects, and logs in,
// when it is first used: Dial fails only for a faulty cfg, never because etcd
// is away. Close the client when done.
func Dial(cfg config.Etcd) (*clientv3.Client, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoints are configured")
	}
	tlsConfig, err := cfg.TLS.Load()
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	dialTimeout := cmp.Or(cfg.DialTimeout, defaultDialTimeout)
	params := grpc.ConnectParams{Backoff: grpcbackoff.DefaultConfig, MinConnectTimeout: dialTimeout}
	params.Backoff.MaxDelay = maxReconnect
	var login lazyLogin
	options := []grpc.DialOption{grpc.WithConnectParams(params), grpc.WithChainUnaryInterceptor(login.intercept)}
	if tlsConfig != nil && tlsConfig.ServerName != "" {
		// Takes the place of what clientv3 makes of TLS.
		options = append(options, grpc.WithTransportCredentials(namedCredentials{credentials.NewTLS(tlsConfig), tlsConfig.ServerName}))
	}
	cli, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		Username:             cfg.Username,
		Password:             cfg.Password.Reveal(),
		TLS:                  tlsConfig,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepaliveTime,
		DialKeepAliveTimeout: keepaliveTimeout,
		DialOptions:          options,
		// It writes to standard error whatever it retries; the watch and the registration say what matters.
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	login.allowed.Store(true)
	return cli, nil
}

// namedCredentials expect one name in each member's certificate. gRPC prefers
// the host that clientv3's resolver gives each member to the name in a TLS
// configuration.
type namedCredentials struct {
	credentials.TransportCredentials

	name string
}

// ClientHandshake implements credentials.TransportCredentials.
func (c namedCredentials) ClientHandshake(ctx context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c.TransportCredentials.ClientHandshake(ctx, c.name, conn)
}

// Clone implements credentials.TransportCredentials.
func (c namedCredentials) Clone() credentials.TransportCredentials {
	return namedCredentials{c.TransportCredentials.Clone(), c.name}
}

// lazyLogin keeps clientv3.New from logging in, which would make it block, and
// fail, while etcd is away. The first request then goes without a token, etcd
// refuses it as having no user, and clientv3 logs in and repeats it.
type lazyLogin struct{ allowed atomic.Bool }

func (l *lazyLogin) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == etcdserverpb.Auth_Authenticate_FullMethodName && !l.allowed.Load() {
		return nil // the reply stays empty: no token
	}
	return next(ctx, method, request, reply, conn, opts...)
}
