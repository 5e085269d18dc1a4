package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/telemetry"
)

// Deps are the parts that a gateway is put together from. Who made them closes
// them, after Run has returned.
type Deps struct {
	Verifier   Verifier                     // may be nil when every route is auth: none
	Backends   map[string]*rpcproxy.Backend // by name, one for each in the config
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer // what /metrics shows
}

// Gateway is the edge with everything behind it.
type Gateway struct {
	cfg      *config.Config
	log      *slog.Logger
	verifier Verifier
	backends map[string]*rpcproxy.Backend

	calls         *telemetry.Calls
	unroutedCalls *observers
	authOutcomes  *telemetry.Auth
	accessLog     *telemetry.AccessLog

	snapshot atomic.Pointer[snapshot]
	ready    readiness
	started  chan struct{}
	servers  []*server
	serving  sync.WaitGroup // the servers' goroutines
	health   *healthServer  // nil without a gRPC listener
	warnings warnings       // build's
}

// New makes a gateway of a validated config. It opens no port: Run does.
func New(cfg *config.Config, d Deps) (*Gateway, error) {
	g := &Gateway{
		cfg: cfg, log: d.Logger, verifier: d.Verifier, backends: d.Backends,
		calls:        telemetry.NewCalls(d.Registerer),
		authOutcomes: telemetry.NewAuth(d.Registerer),
		accessLog:    telemetry.NewAccessLog(d.Logger, cfg.Log),
		started:      make(chan struct{}),
	}
	g.unroutedCalls = newUnroutedObservers(g.calls)
	for _, b := range cfg.Backends {
		if d.Backends[b.Name] == nil {
			return nil, fmt.Errorf("backend %q is configured but was not given", b.Name)
		}
	}
	if err := g.newServers(d.Gatherer); err != nil {
		return nil, err
	}
	return g, nil
}

// Started is closed once the gateway takes calls.
func (g *Gateway) Started() <-chan struct{} { return g.started }

// HTTPAddr is the address that the gateway listens on for HTTP callers, once it
// is started; nil where the config has the listener off.
func (g *Gateway) HTTPAddr() net.Addr { return g.addr(listenerHTTP) }

// GRPCAddr is the address of the gRPC listener; see [Gateway.HTTPAddr].
func (g *Gateway) GRPCAddr() net.Addr { return g.addr(listenerGRPC) }

// AdminAddr is the address of the operators' listener; see [Gateway.HTTPAddr].
func (g *Gateway) AdminAddr() net.Addr { return g.addr(listenerAdmin) }

func (g *Gateway) addr(name string) net.Addr {
	for _, s := range g.servers {
		if s.name == name && s.listener != nil {
			return s.listener.Addr()
		}
	}
	return nil
}

// Routes returns the route table in force, nil before the start.
func (g *Gateway) Routes() *routes.Table {
	if s := g.snapshot.Load(); s != nil {
		return s.table
	}
	return nil
}

// startWait is how long the start waits for the first answers of backends that
// are asked by reflection. One that is down must not keep the others' routes
// from being served.
const startWait = 3 * time.Second

// Run serves until ctx ends, then drains: readiness goes off, the listeners
// close, calls in flight finish within the drain limit. It returns nil after a
// clean stop, or what kept the gateway from starting or serving.
func (g *Gateway) Run(ctx context.Context) error {
	inputs, err := loadDescriptors(ctx, g.cfg.Backends)
	if err != nil {
		return err
	}
	first, err := g.build(inputs)
	if err != nil {
		return err
	}
	g.snapshot.Store(first)
	if err := g.listen(ctx); err != nil {
		return err
	}

	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	tasks := g.watchBackends(background, ctx, inputs)
	failed := g.serve()
	g.ready.on.Store(true)
	close(g.started)
	g.log.Info("serving", slog.Any("http", g.HTTPAddr()), slog.Any("grpc", g.GRPCAddr()), slog.Any("admin", g.AdminAddr()))

	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	// First, as a question to a backend that does not answer would hold its
	// connection, and with it the drain.
	stop()
	err = errors.Join(err, g.drain(context.WithoutCancel(ctx)))
	tasks.Wait()
	return err
}
