package admin

import (
	"context"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/usage"
)

// Options are what a service is made of.
type Options struct {
	Store *tenant.Store
	Audit *Audit
	Log   *slog.Logger
	// Whoever asks may know what the store's trouble is: the command line, which
	// asks Redis itself.
	TellCauses bool
	// Where what was done is told of, for all to see; nil: nowhere.
	Trail *Trail
	// Judge tells what becomes of a credential by what Redis holds.
	Judge func(ctx context.Context, q auth.Question) auth.Answer
	// Ask asks each gateway that is running; missing did not answer.
	Ask func(ctx context.Context, q auth.Question) (answers []auth.Answer, missing []string, err error)
	// Question makes one of a credential as it is presented.
	Question func(c auth.Credential, from string) (auth.Question, error)
	// Usage reads what an app used on the days from first to last, in order.
	Usage func(ctx context.Context, app string, first, last time.Time) ([]usage.Row, error)
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
	adminpb.RegisterAuditServiceServer(r, auditService{Service: s})
}

// noted writes an entry of what was done, or refused to an operator. That it was
// done, and is in the log, does not depend on the trail.
func (s *Service) noted(ctx context.Context, file *os.File, e Entry) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	s.audit.write(file, e)
	if s.Trail == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), trailTimeout)
	defer cancel()
	if err := s.Trail.Add(ctx, e); err != nil {
		s.log.Warn("the trail of what operators do lacks an entry", slog.Any("error", err))
	}
}

// Note writes an entry of what was done past the services.
func (s *Service) Note(ctx context.Context, e Entry, err error) {
	file, openErr := s.audit.open()
	if openErr != nil {
		s.log.Error("the audit log cannot be written", slog.Any("error", openErr))
	}
	defer s.audit.end(file)
	e.Operator = OperatorOf(ctx)
	s.noted(ctx, file, e.with(err))
}
