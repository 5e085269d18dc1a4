package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rpcgate/rpcgate/admin"
	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// line is the one line of an audit log that was written since the last.
func line(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(text, []byte("\n")) != 1 {
		t.Fatalf("not one line: %q", text)
	}
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What stands where a name should be may be a token that was pasted there.
func TestAuditHasNoSecretInTheWrongPlace(t *testing.T) {
	t.Parallel()
	audit, file := newAudit(t)
	s := admin.New(admin.Options{Audit: audit, Log: slog.New(slog.DiscardHandler)})
	operator, _ := admin.NewOperatorToken()
	secret := "rpg_evjuurco323ibj5x_qyullgslpkf32eiutqb43t3o46fudyeh7vrafqcadcosnth5zwua_93153f8c"
	for name, tc := range map[string]struct {
		method string
		req    any
		has    string
	}{
		"a mask of an app": {adminpb.AppService_UpdateApp_FullMethodName, &adminpb.UpdateAppRequest{
			App: &adminpb.App{Id: "acme"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name", operator, secret, "limits.rate", "limits." + operator}},
		}, `"app":"acme","fields":["name","(malformed)","(malformed)","limits.rate","(malformed)"]`},
		"a mask of a token": {adminpb.TokenService_UpdateToken_FullMethodName, &adminpb.UpdateTokenRequest{
			Token: &adminpb.Token{App: secret, Id: secret}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{secret}},
		}, `"app":"(malformed)","token_id":"(malformed)","fields":["(malformed)"]`},
		"an app": {adminpb.AppService_CreateApp_FullMethodName, &adminpb.CreateAppRequest{App: &adminpb.App{Id: operator}}, `"app":"(malformed)"`},
	} {
		info := &grpc.UnaryServerInfo{FullMethod: tc.method}
		_, _ = s.Unary(t.Context(), tc.req, info, func(context.Context, any) (any, error) { return &adminpb.App{}, nil })
		got := line(t, file)
		if strings.Contains(got, operator) || strings.Contains(got, secret[:30]) || !strings.Contains(got, tc.has) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// What a handler did before it panicked stays done.
func TestPanicsAreAudited(t *testing.T) {
	t.Parallel()
	audit, file := newAudit(t)
	s := admin.New(admin.Options{Audit: audit, Log: slog.New(slog.DiscardHandler)})
	info := &grpc.UnaryServerInfo{FullMethod: adminpb.AppService_DeleteApp_FullMethodName}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is not passed on")
			}
		}()
		_, _ = s.Unary(t.Context(), &adminpb.DeleteAppRequest{App: "acme"}, info, func(context.Context, any) (any, error) { panic("handler") })
	}()
	if got := line(t, file); !strings.Contains(got, `"app":"acme"`) || !strings.Contains(got, `"result":"INTERNAL"`) {
		t.Error(got)
	}
}

// imports is a stream of records to take in.
type imports struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // grpc.ServerStream has it
	all []*adminpb.ImportRecordsRequest
}

func (s *imports) Context() context.Context { return s.ctx }

func (s *imports) RecvMsg(m any) error {
	if len(s.all) == 0 {
		return errors.New("the end")
	}
	m.(*adminpb.ImportRecordsRequest).DryRun, m.(*adminpb.ImportRecordsRequest).Existing = s.all[0].GetDryRun(), s.all[0].GetExisting()
	s.all = s.all[1:]
	return nil
}

// A line tells an import from a rehearsal of one, also where a stream is both.
func TestImportsAreAuditedAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	audit, file := newAudit(t)
	s := admin.New(admin.Options{Audit: audit, Log: slog.New(slog.DiscardHandler)})
	dry, replace := &adminpb.ImportRecordsRequest{DryRun: true}, &adminpb.ImportRecordsRequest{Existing: adminpb.ImportRecordsRequest_REPLACE}
	for want, all := range map[string][]*adminpb.ImportRecordsRequest{
		`"fields":["dry_run"]`:                     {dry, dry},
		`"fields":["dry_run","existing=replace"]`:  {dry, replace, dry},
		`ImportRecords","result":"OK"`:             nil,
		`"fields":["existing=fail"],"result":"OK"`: {{}},
	} {
		stream := &imports{ctx: t.Context(), all: all}
		info := &grpc.StreamServerInfo{FullMethod: adminpb.TransferService_ImportRecords_FullMethodName, IsClientStream: true}
		err := s.Stream(nil, stream, info, func(_ any, ss grpc.ServerStream) error {
			for ss.RecvMsg(new(adminpb.ImportRecordsRequest)) == nil {
			}
			return nil
		})
		if got := line(t, file); err != nil || !strings.Contains(got, want) {
			t.Errorf("%v, %s, want %s", err, got, want)
		}
	}
}

// registrar keeps the implementations of services, by their names.
type registrar map[string]any

func (r registrar) RegisterService(desc *grpc.ServiceDesc, srv any) { r[desc.ServiceName] = srv }

// A body that breaks off is its caller's failure, and not the store's.
func TestAnImportThatBreaksOff(t *testing.T) {
	t.Parallel()
	audit, file := newAudit(t)
	s := admin.New(admin.Options{Audit: audit, Log: slog.New(slog.DiscardHandler)})
	services := registrar{}
	s.Register(services)
	info := &grpc.StreamServerInfo{FullMethod: adminpb.TransferService_ImportRecords_FullMethodName, IsClientStream: true}
	err := s.Stream(services[adminpb.TransferService_ServiceDesc.ServiceName], &imports{ctx: t.Context()}, info, adminpb.TransferService_ServiceDesc.Streams[1].Handler)
	if status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	if got := line(t, file); !strings.Contains(got, `"result":"CANCELLED"`) {
		t.Error(got)
	}
}

// newLocal is the API over a Redis in memory.
func newLocal(t *testing.T) (l *admin.Local, server *miniredis.Miniredis, trail string) {
	t.Helper()
	server = miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	cfg := config.Defaults().Auth
	audit, _ := newAudit(t)
	l, err := admin.NewLocal(admin.New(admin.Options{
		Store: tenant.NewStore(rdb, cfg), Audit: audit, Log: slog.New(slog.DiscardHandler), Trail: admin.NewTrail(rdb, tenant.KeysOf(cfg).Audit()),
	}), admin.Operator{Name: "ann", From: "cli"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, server, tenant.KeysOf(cfg).Audit()
}

// What cannot be read in the trail hides nothing of the rest.
func TestDamagedEntryOfTheTrail(t *testing.T) {
	t.Parallel()
	l, server, key := newLocal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := adminpb.NewAppServiceClient(l).CreateApp(ctx, &adminpb.CreateAppRequest{App: &adminpb.App{Id: "acme"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.XAdd(key, "*", []string{"entry", "{"}); err != nil {
		t.Fatal(err)
	}
	page, err := adminpb.NewAuditServiceClient(l).ListAudit(ctx, &adminpb.ListAuditRequest{})
	if err != nil || len(page.GetEntries()) != 2 || page.GetEntries()[0].GetMethod() != "(damaged)" || page.GetEntries()[1].GetApp() != "acme" {
		t.Errorf("%v, %v", page, err)
	}
}

// No time that protobuf has no name for gets into a record.
func TestUpdateTokenRefusesTimesThatThereAreNot(t *testing.T) {
	t.Parallel()
	l, _, _ := newLocal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tokens := adminpb.NewTokenServiceClient(l)
	issued, err := tokens.IssueToken(ctx, &adminpb.IssueTokenRequest{App: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []*timestamppb.Timestamp{{Seconds: 1 << 60}, {Seconds: -1 << 60}, {Nanos: -1}} {
		_, err := tokens.UpdateToken(ctx, &adminpb.UpdateTokenRequest{
			Token:      &adminpb.Token{App: "acme", Id: issued.GetToken().GetId(), Expires: at},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"expires"}},
		})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", fmt.Sprint(at), err)
		}
	}
}
