package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/admin"
	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
)

// callTimeout bounds one call of the API, in this process or a gateway's.
const callTimeout = 10 * time.Second

// apiFlags say where apps and tokens are: in a Redis, which is dealt with here,
// or behind the admin port of a gateway. It is the same service in both.
type apiFlags struct {
	store    storeFlags
	remote   remoteFlags
	auditLog string
}

func (f *apiFlags) add(cmd *cobra.Command) {
	f.store.add(cmd)
	f.remote.add(cmd)
	cmd.Flags().StringVar(&f.auditLog, "audit-log", "", "with Redis: add what is changed to `FILE`, as a line of JSON")
}

// api is the admin API, wherever it is served.
type api struct {
	apps     adminpb.AppServiceClient
	tokens   adminpb.TokenServiceClient
	transfer adminpb.TransferServiceClient
	usage    adminpb.UsageServiceClient
	audit    adminpb.AuditServiceClient
}

func newAPI(conn grpc.ClientConnInterface) api {
	return api{
		apps: adminpb.NewAppServiceClient(conn), tokens: adminpb.NewTokenServiceClient(conn),
		transfer: adminpb.NewTransferServiceClient(conn), usage: adminpb.NewUsageServiceClient(conn),
		audit: adminpb.NewAuditServiceClient(conn),
	}
}

// with opens the API, runs do, and closes it. What do returns is told as the
// service has said it.
func (f *apiFlags) with(ctx context.Context, do func(context.Context, api) error) error {
	if f.remote.given() {
		if err := f.onlyRemote(); err != nil {
			return err
		}
		conn, err := f.remote.dial()
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return toldBy("the gateway refused: ", do(ctx, newAPI(conn)))
	}
	return f.local(ctx, func(ctx context.Context, _ *admin.Service, conn grpc.ClientConnInterface, _ config.Redis, _ config.Auth) error {
		return do(ctx, newAPI(conn))
	})
}

func (f *apiFlags) onlyRemote() error {
	switch {
	case f.store.file != "" || len(f.store.redis) > 0:
		return usagef("give --admin, or -c or --redis, not both")
	case f.auditLog != "":
		return usagef("--audit-log goes with Redis: a gateway has an audit log of its own")
	}
	return nil
}

// local serves the API over Redis in this process, on behalf of the user.
func (f *apiFlags) local(ctx context.Context, do func(context.Context, *admin.Service, grpc.ClientConnInterface, config.Redis, config.Auth) error) error {
	redis, settings, err := f.store.settings()
	if err != nil {
		return err
	}
	audit, err := admin.NewAudit(f.auditLog, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	rdb, err := auth.Open(redis)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	s := newAdminService(rdb, settings, audit, slog.New(slog.DiscardHandler))
	s.TellCauses = true
	by := admin.Operator{Name: userName(), From: "cli"}
	conn, err := admin.NewLocal(s, by)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	err = toldBy("", do(admin.WithOperator(ctx, by), s, conn, redis, settings))
	if at := strings.Join(redis.Addresses, ", "); isCode(err, codes.Unavailable) && !strings.Contains(err.Error(), at) {
		return fmt.Errorf("redis at %s: %w", at, err)
	}
	return err
}

// toldBy makes a status a sentence for people.
func toldBy(prefix string, err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	message := s.Message()
	if cause, failed := strings.CutPrefix(message, "connection error: desc = "); failed && s.Code() == codes.Unavailable {
		prefix, message = "asking the gateway: ", strings.Trim(cause, `"`)
	}
	text := printable(message)
	if text == "" {
		text = s.Code().String()
	}
	return &statusError{s, prefix + text + hintFor(s)}
}

// hintFor says what to do about a refusal, in the words of the command line;
// empty: the message says so, or nothing can be done.
func hintFor(s *status.Status) string {
	if s.Code() == codes.Unimplemented {
		return "; an admin port has the API when the gateway's admin.operators names somebody"
	}
	for _, d := range s.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok {
			continue
		}
		switch info.GetReason() {
		case "APP_EXISTS":
			return "; 'gateway app set' changes it"
		case "RECORD_EXISTS":
			return "; --existing skip keeps what is there, --existing replace takes what is imported"
		case "CONFLICT":
			return "; look at it again, and give the version that it has now"
		}
	}
	return ""
}

// statusError is a refusal of the API's.
type statusError struct {
	status *status.Status
	text   string
}

func (e *statusError) Error() string { return e.text }

// isCode tells whether an error is a status of a code.
func isCode(err error, code codes.Code) bool {
	var told *statusError
	if errors.As(err, &told) {
		return told.status.Code() == code
	}
	return status.Code(err) == code
}

// limited bounds one call.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// needRef checks the flags that name a token.
func needRef(app, id string) error {
	if err := needApp(app); err != nil {
		return err
	}
	if id == "" {
		return usagef("--id is missing")
	}
	return nil
}

// needYes refuses what cannot be undone unless whoever is at a terminal has said
// yes to it. Scripts mean what they say.
func needYes(cmd *cobra.Command, yes bool, what string) error {
	if yes || !isTerminal(cmd.InOrStdin()) {
		return nil
	}
	return usagef("%s; say --yes to do it", what)
}
