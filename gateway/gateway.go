package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/telemetry"
)

// Deps are the parts that a gateway is put together from. Who made them closes
// them, after Run has returned.
type Deps struct {
	Verifier   Verifier                     // may be nil when every route is auth: none
	Limiter    Limiter                      // keeps rates and quotas; nil: there are none
	Usage      Usage                        // keeps what apps use; nil: nobody does
	Backends   map[string]*rpcproxy.Backend // by name, one for each in the config
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer // what /metrics shows
	Store      func() StoreState   // of the Verifier's store; nil: there is none
	// Who may use the admin port; nil: everybody, and there are no AdminServices.
	Operators     Operators
	AdminServices *AdminServices // nil: none
}

// Gateway is the edge with everything behind it.
type Gateway struct {
	cfg      *config.Config
	log      *slog.Logger
	verifier Verifier
	guesses  *limits.Guesses // nil: guesses are not bounded
	bounds   *bounder
	usage    Usage // nil: none is kept
	apps     *telemetry.Apps
	store    func() StoreState // nil: none
	begin    generation        // what Run begins with

	operators Operators // nil: the admin port is open

	calls         *telemetry.Calls
	unroutedCalls *observers
	authOutcomes  *telemetry.Auth
	accessLog     *telemetry.AccessLog
	shedder       *shedder // nil: nothing is shed
	limiter       *limiter // nil: no rates, no quotas

	messages buffers // for looks into messages that are in pieces

	snapshot atomic.Pointer[snapshot]
	reloads  chan reloading
	ready    readiness
	started  chan struct{}
	stopping chan struct{} // closed when no more reloads are taken
	servers  []*server
	serving  sync.WaitGroup // the servers' goroutines
	health   *healthServer  // nil without a gRPC listener
	warnings warnings       // build's
}

// New makes a gateway of a validated config. It opens no port: Run does.
func New(cfg *config.Config, d Deps) (*Gateway, error) {
	g := &Gateway{
		cfg: cfg, log: d.Logger, verifier: d.Verifier, store: d.Store, operators: d.Operators, begin: generation{cfg: cfg, backends: d.Backends},
		calls:        telemetry.NewCalls(d.Registerer),
		guesses:      limits.NewGuesses(cfg.Auth.Guessing),
		bounds:       newBounder(cfg.Limits, d.Registerer),
		usage:        d.Usage,
		apps:         telemetry.NewApps(d.Registerer, cfg.Metrics),
		authOutcomes: telemetry.NewAuth(d.Registerer),
		accessLog:    telemetry.NewAccessLog(d.Logger, cfg.Log),
		shedder:      newShedder(cfg.Overload, d.Registerer),
		limiter:      newLimiter(d.Limiter, cfg.Limits, d.Registerer),
		reloads:      make(chan reloading),
		started:      make(chan struct{}),
		stopping:     make(chan struct{}),
	}
	g.unroutedCalls = newUnroutedObservers(g.calls)
	if err := g.begin.complete(); err != nil {
		return nil, err
	}
	if err := g.newServers(d.AdminServices, d.Gatherer); err != nil {
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
	first, err := g.build(g.begin, nil, inputs)
	if err != nil {
		return err
	}
	g.enforce(first)
	if err := g.listen(ctx); err != nil {
		return err
	}

	background := context.WithoutCancel(ctx)
	measured, stop := context.WithCancel(background)
	var measuring sync.WaitGroup
	measuring.Go(func() { g.shedder.run(measured, g.log) })
	measuring.Go(func() { g.apps.Run(measured) })
	defer measuring.Wait()
	defer stop()
	beside := g.watchBackends(background, ctx, inputs)
	failed := g.serve()
	g.ready.on.Store(true)
	close(g.started)
	g.log.Info("serving", slog.Any("http", g.HTTPAddr()), slog.Any("grpc", g.GRPCAddr()), slog.Any("admin", g.AdminAddr()))

	beside, err = g.untilStopped(ctx, background, beside, failed)
	// First, as a question to a backend that does not answer would hold its
	// connection, and with it the drain.
	beside.stop()
	err = errors.Join(err, g.drain(background))
	beside.tasks.Wait()
	return err
}
