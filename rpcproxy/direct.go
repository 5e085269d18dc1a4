package rpcproxy

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/discovery"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// directIdle is how long a connection to one endpoint is kept that carries no
// call: who calls every endpoint by itself does so now and then.
const directIdle = 30 * time.Second

// directConns makes connections that have one endpoint each, for
// [Request.Endpoint]. They have a pool of their own, so that a call to every
// endpoint does not put all other connections out of use.
type directConns struct {
	dialer        *dialer
	authority     string
	serviceConfig string
	pool          *Pool
}

func newDirectConns(cfg config.Pool, d *dialer, obs poolObserver) (*directConns, error) {
	authority, err := discovery.Authority(d.target, d.resolvers)
	if err != nil {
		return nil, err
	}
	serviceConfig, err := balancer.ServiceConfig("pick_first")
	if err != nil {
		return nil, err
	}
	c := &directConns{dialer: d, authority: authority, serviceConfig: serviceConfig}
	if cfg.IdleTimeout == 0 || cfg.IdleTimeout > directIdle {
		cfg.IdleTimeout = directIdle
	}
	c.pool, err = newPool(cfg, c.dial, obs)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// dial makes a connection to one endpoint, with all that the backend's other
// connections have: its TLS, its authority, its keepalive.
func (c *directConns) dial(key *connKey) (*grpc.ClientConn, error) {
	endpoint := key.Endpoint
	options := append(c.dialer.options(),
		grpc.WithResolvers(oneAddress{
			address: c.dialer.book.find(endpoint), authority: c.authority, dials: c.dialer.dials, app: key.App,
		}),
		grpc.WithDefaultServiceConfig(c.serviceConfig),
		grpc.WithDisableServiceConfig(),
	)
	conn, err := grpc.NewClient(oneAddressScheme+":///"+endpoint, options...)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	return conn, nil
}

// close closes all, once calls in flight are over or ctx is done.
func (c *directConns) close(ctx context.Context) error {
	c.dialer.book.close()
	return c.pool.shutdown(ctx)
}

// Addresses lists all endpoints of the backend, be they among those that its
// connections use or not, sorted. The first time it waits for discovery until
// ctx is done.
func (b *Backend) Addresses(ctx context.Context) ([]string, error) {
	all, err := b.direct.dialer.book.all(ctx, b.target, b.direct.dialer.resolvers)
	if err != nil {
		return nil, fmt.Errorf("backend %q (%s): %w", b.name, b.target, err)
	}
	list := make([]string, len(all))
	for i, a := range all {
		list[i] = a.Addr
	}
	return list, nil
}

// acquire gives the connection for a call.
func (b *Backend) acquire(ctx context.Context, r *Request) (Lease, error) {
	if r.Endpoint != "" {
		return b.direct.pool.acquireAt(ctx, r.Credential, r.Endpoint)
	}
	return b.pool.Acquire(ctx, r.Credential)
}

// oneAddressScheme is that of connections to one endpoint. Its resolver is
// given to each; none is registered.
const oneAddressScheme = "rpcgate-endpoint"

// oneAddress resolves to one endpoint as discovery told of it.
type oneAddress struct {
	address   resolver.Address
	authority string
	dials     *fleet.Dials
	app       string
}

func (oneAddress) Scheme() string { return oneAddressScheme }

// OverrideAuthority is the backend's: the endpoint's address is not what its
// certificate need name.
func (r oneAddress) OverrideAuthority(resolver.Target) string { return r.authority }

func (r oneAddress) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	list := []resolver.Address{r.address}
	// An error here is the balancer's, and resolving again would not change it.
	_ = cc.UpdateState(balancer.WithDials(
		resolver.State{Addresses: list, Endpoints: []resolver.Endpoint{{Addresses: list}}}, r.dials, r.app))
	return r, nil
}

func (oneAddress) ResolveNow(resolver.ResolveNowOptions) {}

func (oneAddress) Close() {}
