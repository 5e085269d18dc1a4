package rpcproxy

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// Options is what a [Backend] needs besides its configuration.
type Options struct {
	// Where to log; nil: nowhere.
	Logger *slog.Logger
	// Where the metrics go; nil: nowhere. Backends may share one.
	Registerer prometheus.Registerer
	// The resolvers of schemes that grpc-go has not built in, such as etcd's.
	// They are given to each connection; none is registered globally.
	Resolvers []resolver.Builder
	// The gRPC target to dial; empty: made from the configuration.
	Target string
	// End the calls in flight, too, when their credential is revoked. False:
	// they may finish within the drain timeout.
	CancelRevoked bool

	dialOptions []grpc.DialOption // for tests
}

// Backend is one upstream service group: its connections and its policies. It
// is safe for use by many goroutines.
type Backend struct {
	name   string
	target string
	log    *slog.Logger

	bulkhead      *bulkhead
	pool          *Pool
	direct        *directConns
	fleet         *fleet.Fleet
	retrier       *retrier
	methods       *methods
	metrics       *metrics
	run           step
	callOptions   []grpc.CallOption // of every call; shared, only read
	repeatsHere   grpc.CallOption   // where calls may be made again: not by grpc-go
	attach        bool              // calls carry their credential
	hashKeys      bool              // the balancer wants a hash of what keeps its endpoint
	hashHeader    string            // whose value is hashed; empty: the app's id is
	cancelRevoked bool

	// Whether the last attempt that tells found no way to the backend.
	lost atomic.Bool
}

// New makes a backend. It connects to nothing yet. Close it when it is no
// longer needed. balancer.Register must have been called before.
func New(cfg config.Backend, o Options) (*Backend, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	f, err := fleet.New(cfg, fleet.Options{Observe: newFleetEvents(cfg.Name, o.Logger, m).note})
	if err != nil {
		return nil, err
	}
	d, err := newDialer(cfg, f, o)
	if err != nil {
		return nil, err
	}
	retrier := newRetrier(cfg.Retry)
	ms := newMethods(cfg, m, o.Logger.With("backend", cfg.Name))
	b := &Backend{
		name: cfg.Name, target: d.target,
		log:      o.Logger.With("backend", cfg.Name),
		methods:  ms,
		bulkhead: newBulkhead(cfg.Name, ms.limit, m),
		metrics:  m,
		run:      chain(cfg.DeadlineReserve, retrier.run),
		retrier:  retrier,
		// grpc-go sends again by itself what the other end left out, as long as it
		// keeps the messages. Then nobody would count it, nor look for another
		// endpoint, and the messages would be kept twice.
		repeatsHere: grpc.MaxRetryRPCBufferSize(0),
		callOptions: []grpc.CallOption{
			grpc.ForceCodecV2(RawCodec()),
			grpc.MaxCallRecvMsgSize(int(cfg.Conn.MaxReceiveSize)),
			grpc.MaxCallSendMsgSize(int(cfg.Conn.MaxSendSize)),
		},
		attach:        cfg.Credentials != "drop",
		fleet:         f,
		hashKeys:      cfg.Balancer.Policy == "ring_hash",
		hashHeader:    cfg.Balancer.HashHeader,
		cancelRevoked: o.CancelRevoked,
	}
	if _, err := breaker.New(cfg.Breaker, breaker.Options{}); err != nil { // its faults show now, not with the first call
		return nil, err
	}
	b.pool, err = newPool(cfg.Pool, d.dial, m.poolObserver(cfg.Name))
	if err != nil {
		return nil, err
	}
	b.direct, err = newDirectConns(cfg.Pool, d, m.poolObserver(cfg.Name))
	if err != nil {
		return nil, err
	}
	m.add(b)
	return b, nil
}

// Name is the backend's name in the configuration.
func (b *Backend) Name() string { return b.name }

// Target is the gRPC target that its connections dial.
func (b *Backend) Target() string { return b.target }

// Forward carries one call to the backend and its answer back into ex. It
// returns nil when the backend ended the call with OK.
//
// Errors, by errors.As: [*StatusError], [*UnreachableError],
// [*BreakerOpenError], [*BusyError], [*TimeoutError], [*ExchangeError],
// [*LocalError]; and context.Canceled, by errors.Is, when the caller went away,
// which it does when ctx is cancelled.
//
// The one message of a caller that does not stream is taken first: a slow
// caller takes none of the backend's time, holds no connection, and is not
// held against the backend by the breaker.
//
// Where the caller streams, one call of ex.RecvMsg may still be under way when
// Forward returns. It is the last one, and what it returns is freed.
func (b *Backend) Forward(ctx context.Context, r *Request, ex Exchange) error {
	m, err := b.methods.get(r.Method)
	if err != nil {
		return err
	}
	if err := b.bulkhead.enter(b.name, r.Tenant); err != nil {
		return err
	}
	defer b.bulkhead.limit.Release(r.Tenant)
	c := newCall(ctx, b, m, r, ex)
	if !r.ClientStreams {
		if err := c.receiveOnly(); err != nil {
			return err
		}
	}
	defer c.close()
	if m.kind == nil || c.streams() {
		return b.run(ctx, c)
	}
	began := time.Now()
	err = b.run(ctx, c)
	b.bulkhead.observe(c, began, err)
	return err
}

// AcquireShared gives a connection without credentials, for reflection and
// health checks, and what releases it: a dial function of routes.Load.
func (b *Backend) AcquireShared(ctx context.Context) (conn grpc.ClientConnInterface, release func(), err error) {
	lease, err := b.pool.Acquire(ctx, Credential{})
	if err != nil {
		return nil, nil, err
	}
	return lease.Conn(), lease.Release, nil
}

// Revoke closes the connections of a token, or of a whole app if tokenID is
// empty, to new calls, and with Options.CancelRevoked ends their calls in
// flight. A connection that several tokens share (pool.key app or shared) stays
// unless all of them are revoked.
func (b *Backend) Revoke(app, tokenID string) {
	b.pool.revoke(app, tokenID, b.cancelRevoked)
	b.direct.pool.revoke(app, tokenID, b.cancelRevoked)
}

// Healthy tells whether calls can be expected to reach the backend: some
// connection is ready; or none is failing, and the last call that tried did
// reach it. It connects to nothing.
func (b *Backend) Healthy() bool {
	ready, failing := b.pool.ready()
	return ready || !failing && !b.lost.Load()
}

// noteReach remembers what an attempt says about the way to the backend, and
// logs when that changes. The check before the swap keeps the line of memory
// shared between processors while all is well.
func (b *Backend) noteReach(err error) {
	switch {
	case err == nil, is[*StatusError](err):
		if b.lost.Load() && b.lost.Swap(false) {
			b.log.Info("backend is reached again")
		}
	case is[*UnreachableError](err):
		if !b.lost.Load() && !b.lost.Swap(true) {
			b.log.Warn("backend cannot be reached", "error", err)
		}
	}
}

// Shutdown takes no new calls and waits for those in flight. When ctx is done
// it ends them and gives ctx's error. All is closed when it returns.
func (b *Backend) Shutdown(ctx context.Context) error {
	err := errors.Join(b.pool.shutdown(ctx), b.direct.close(ctx))
	b.metrics.remove(b)
	return err
}

// Close ends everything at once.
func (b *Backend) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
