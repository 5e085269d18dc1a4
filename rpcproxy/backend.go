package rpcproxy

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
)

// Options is what a [Backend] needs besides its configuration.
type Options struct {
	// Where to log; nil: nowhere.
	Logger *slog.Logger
	// Where the metrics go; nil: nowhere. Backends may share one.
	Registerer prometheus.Registerer
	// The resolvers of schemes that grpc-go has not built in. They are given to
	// each connection; none is registered globally.
	Resolvers []resolver.Builder
	// The gRPC target to dial; empty: made from the configuration.
	Target string
	// End the calls in flight, too, when their credential is revoked. False:
	// they may finish within the drain timeout.
	CancelRevoked bool
}

// Backend is one upstream service group: its connections and its policies. It
// is safe for use by many goroutines.
type Backend struct {
	name   string
	target string
}

// New makes a backend. It connects to nothing yet. Close it when it is no
// longer needed.
func New(cfg config.Backend, o Options) (*Backend, error) {
	return &Backend{name: cfg.Name, target: o.Target}, nil
}

// Name is the backend's name in the configuration.
func (b *Backend) Name() string { return b.name }

// Target is the gRPC target that its connections dial.
func (b *Backend) Target() string { return b.target }

// Forward carries one call to the backend and its answer back into ex. It
// returns nil when the backend ended the call with OK.
//
// Errors, by errors.As: [*StatusError], [*UnreachableError],
// [*BreakerOpenError], [*TimeoutError], [*ExchangeError], [*LocalError]; and
// context.Canceled, by errors.Is, when the caller went away.
func (b *Backend) Forward(ctx context.Context, r *Request, ex Exchange) error {
	return errors.New("not built yet")
}

// AcquireShared gives a connection without credentials, for reflection and
// health checks. Release it.
func (b *Backend) AcquireShared(ctx context.Context) (Lease, error) {
	return Lease{}, errors.New("not built yet")
}

// Revoke closes the connections of a token, or of a whole app if tokenID is
// empty, to new calls.
func (b *Backend) Revoke(app, tokenID string) {}

// Healthy tells whether calls can be expected to reach the backend: some
// connection is ready, or none has failed since the last one was.
func (b *Backend) Healthy() bool { return true }

// Shutdown takes no new calls and waits for those in flight, until ctx is
// done; then it closes what is left.
func (b *Backend) Shutdown(ctx context.Context) error { return nil }

// Close ends everything at once.
func (b *Backend) Close() error { return nil }
