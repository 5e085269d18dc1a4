package admin

import (
	"context"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/usage"
)

// Answer is how one gateway answers for a credential.
type Answer struct {
	// The gateway's name.
	Node string
	// Whether it would take a call.
	Valid bool
	// The error reason that its caller would be told; empty: none.
	Reason string
	// It did not answer in time.
	Missing bool
}

// Options are what a service is made of.
type Options struct {
	Store *tenant.Store
	Audit *Audit
	Log   *slog.Logger
	// Whoever asks may know what the store's trouble is: the command line, which
	// asks Redis itself.
	TellCauses bool
	// Verify finds out about a credential as it would be presented from an
	// address, which may be empty. A credential that is no good is a Verdict, not
	// an error.
	Verify func(ctx context.Context, app, token, from string) (Verdict, error)
	// Usage reads what an app used on the days from first to last, in order.
	Usage func(ctx context.Context, app string, first, last time.Time) ([]usage.Row, error)
}

// Verdict is what becomes of a credential.
type Verdict struct {
	ID      string // the public part of the token, if it has one
	Valid   bool
	Reason  string
	Answers []Answer
}

// Service implements the services of rpcgate.admin.v1. Unary and Stream must be
// around its methods.
type Service struct {
	Options
	audit *Audit
	log   *slog.Logger
}

// New makes the service.
func New(o Options) *Service { return &Service{Options: o, audit: o.Audit, log: o.Log} }

// Register registers all of it.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	adminpb.RegisterAppServiceServer(r, appService{Service: s})
	adminpb.RegisterTokenServiceServer(r, tokenService{Service: s})
	adminpb.RegisterTransferServiceServer(r, transferService{Service: s})
	adminpb.RegisterUsageServiceServer(r, usageService{Service: s})
}

// noted writes an entry of what was done, or refused to an operator.
func (s *Service) noted(ctx context.Context, file *os.File, e Entry) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	s.audit.write(file, e)
	if s.audit.also != nil {
		s.audit.also(ctx, e)
	}
}
