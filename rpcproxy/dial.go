package rpcproxy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/discovery"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// Windows of flow control, in bytes. That of a stream is what a caller who does
// not read can have held here. grpc-go would let it grow to 16 MiB where the
// backend is near, so that a few hundred such callers took gigabytes. A message
// that is larger than the window widens it for as long as it takes. That of a
// connection holds nothing back: grpc-go gives it back as data comes.
const (
	streamWindow = 1 << 20
	connWindow   = 16 << 20
)

// tlsReadBuffer is how much is read at once, in bytes, of a connection with TLS,
// which has a buffer of its own, by default: crypto/tls holds a record of up to 16 KiB
// besides, so that a larger one saves no system call, and messages are read past
// it. In clear text grpc-go takes buffers of 32 KiB from a pool, and only while
// there is something to read.
const tlsReadBuffer = 4 << 10

// firstBackoff is the pause after the first failed attempt to connect. grpc-go
// waits a second, during which calls fail though the backend may be back.
const firstBackoff = 200 * time.Millisecond

// dialer makes the connections of one backend.
type dialer struct {
	target        string
	cfg           config.Conn
	transport     credentials.TransportCredentials
	authority     string // the name in the certificate and of the host; empty: the endpoint's
	serviceConfig string
	resolvers     []resolver.Builder
	dials         *fleet.Dials
	book          *addressBook
	// More options, for tests.
	extra []grpc.DialOption
}

// newDialer is a dialer whose connections go to the endpoints that the fleet
// chooses.
func newDialer(cfg config.Backend, f *fleet.Fleet, o Options) (*dialer, error) {
	target, err := targetOf(cfg, o.Target)
	if err != nil {
		return nil, err
	}
	transport, err := transportCredentials(cfg.TLS)
	if err != nil {
		return nil, err
	}
	serviceConfig, err := balancer.ServiceConfig(cfg.Balancer.Policy)
	if err != nil {
		return nil, err
	}
	book := newAddressBook()
	d := &dialer{
		target: target, cfg: cfg.Conn, transport: transport, serviceConfig: serviceConfig,
		resolvers: fleetResolvers(f, book, o.Resolvers),
		dials:     f.Dials(),
		book:      book,
		extra:     o.dialOptions,
	}
	if cfg.TLS != nil {
		d.authority = cfg.TLS.ServerName
	}
	// What can be wrong with the target or an option shows now.
	conn, err := d.newClient("")
	if err != nil {
		return nil, err
	}
	return d, conn.Close()
}

// targetOf is where the backend is.
func targetOf(cfg config.Backend, target string) (string, error) {
	switch {
	case target != "":
		return target, nil
	case len(cfg.Endpoints) > 0:
		return discovery.StaticTarget(cfg.Endpoints), nil
	case cfg.Etcd != nil:
		return discovery.EtcdTarget(*cfg.Etcd), nil
	case cfg.Consul != nil:
		return discovery.ConsulTarget(*cfg.Consul), nil
	case cfg.Kubernetes != nil:
		return discovery.KubernetesTarget(*cfg.Kubernetes), nil
	case cfg.Target != "":
		return cfg.Target, nil
	default:
		return "", errors.New("no target: one of endpoints, etcd, consul, kubernetes and target must be set")
	}
}

// dial makes a connection for an app, which carries nobody's credential: that
// goes with each call. It is idle until it is used or told to connect.
//
// From the first on discovery is looked at without an end, so that endpoints
// are known, and their history is kept, when all connections were closed as
// idle ones; also if what names them is away by then.
func (d *dialer) dial(key *connKey) (*grpc.ClientConn, error) {
	if d.sharesResolver() {
		if err := d.book.look(d.target, d.resolvers); err != nil {
			return nil, err
		}
	}
	return d.newClient(key.App)
}

// sharesResolver is false for targets whose endpoints only their connections
// know, which are xDS's.
func (d *dialer) sharesResolver() bool { return !strings.HasPrefix(d.target, "xds:") }

// newClient does no I/O.
func (d *dialer) newClient(app string) (*grpc.ClientConn, error) {
	options := append(d.options(), grpc.WithResolvers(inTurn(d.resolvers, d.dials, app)...))
	conn, err := grpc.NewClient(d.target, options...)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", d.target, err)
	}
	return conn, nil
}

// options are made afresh for each connection.
func (d *dialer) options() []grpc.DialOption {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(d.transport.Clone()),
		grpc.WithDefaultServiceConfig(d.serviceConfig),
		// Also where the environment names a proxy: the fleet is to know the endpoints.
		grpc.WithLocalDNSResolution(),
		grpc.WithUserAgent("rpcgate"),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  min(firstBackoff, d.cfg.MaxBackoff),
				Multiplier: 1.6,
				Jitter:     0.2,
				MaxDelay:   d.cfg.MaxBackoff,
			},
			MinConnectTimeout: d.cfg.ConnectTimeout,
		}),
		// The pool has its own idle timeout. grpc-go's would leave a connection
		// that looks alive and must be made anew, resolver and all, by the first
		// call.
		grpc.WithIdleTimeout(0),
	}
	// A backend's own service config, say from DNS, must not set policies that
	// are configured here. For xds it is where the endpoints come from.
	if d.sharesResolver() {
		options = append(options, grpc.WithDisableServiceConfig())
	}
	switch {
	case d.cfg.ReadBuffer > 0:
		options = append(options, grpc.WithReadBufferSize(int(d.cfg.ReadBuffer)))
	case d.transport.Info().SecurityProtocol == "tls":
		options = append(options, grpc.WithReadBufferSize(tlsReadBuffer))
	}
	if d.cfg.KeepaliveTime > 0 {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time:                d.cfg.KeepaliveTime,
			Timeout:             d.cfg.KeepaliveTimeout,
			PermitWithoutStream: d.cfg.KeepaliveIdle,
		}))
	}
	if d.authority != "" {
		// The name in the transport credentials alone would lose against the
		// endpoints' own, where a resolver gives them one.
		options = append(options, grpc.WithAuthority(d.authority))
	}
	return append(options, d.extra...)
}

// transportCredentials are clear text without configuration.
func transportCredentials(cfg *config.ClientTLS) (credentials.TransportCredentials, error) {
	t, err := cfg.Load()
	if err != nil {
		return nil, err
	}
	if t == nil {
		return insecure.NewCredentials(), nil
	}
	return credentials.NewTLS(t), nil
}
