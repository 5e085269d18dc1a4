package admin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth/tenant"
)

// Unary is the interceptor that writes the audit log of calls, and makes
// statuses of what the store says.
func (s *Service) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	method := strings.TrimPrefix(info.FullMethod, "/")
	if !changes(method) {
		resp, err := next(ctx, req)
		return resp, s.status(ctx, method, err)
	}
	e := &Entry{Method: method}
	e.about(req)
	var resp any
	err := s.audited(ctx, e, func() (err error) {
		if resp, err = next(ctx, req); err == nil {
			e.about(resp)
		}
		return err
	})
	return resp, err
}

// Stream is the interceptor for streams.
func (s *Service) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	e := &Entry{Method: strings.TrimPrefix(info.FullMethod, "/")}
	return s.audited(stream.Context(), e, func() error { return next(srv, auditedStream{stream, e}) })
}

// audited does what changes something, and writes what became of it, also where
// it ends in a panic: what was changed by then stays changed.
func (s *Service) audited(ctx context.Context, e *Entry, do func() error) error {
	file, err := s.audit.open()
	if err != nil {
		return s.audit.unavailable(err)
	}
	defer s.audit.end(file)
	e.Operator = OperatorOf(ctx)
	err = status.Error(codes.Internal, "it did not end")
	defer func() { s.noted(ctx, file, e.with(err)) }()
	err = s.status(ctx, e.Method, do())
	return err
}

// auditedStream has an entry learn from each message what it is about.
type auditedStream struct {
	grpc.ServerStream
	entry *Entry
}

func (s auditedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.entry.about(m)
	}
	return err
}

// status gives the status of what became of a call. What the store's trouble is
// goes to the log: it may name addresses.
func (s *Service) status(ctx context.Context, method string, err error) error {
	told := failure(err)
	if reasonOf(told) != reasonStore {
		return told
	}
	if s.TellCauses {
		return statusError(codes.Unavailable, reasonStore, err.Error())
	}
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "the store cannot be asked", slog.String("method", method), slog.Any("error", err))
	}
	return told
}

// changes tells methods that change something, or give out what is good to have
// for who would: all but those that say of themselves that they do nothing.
func changes(method string) bool {
	if harmless(method) {
		return false
	}
	service, name, _ := strings.Cut(method, "/")
	for _, f := range Files() {
		s := f.Services().ByName(protoreflect.FullName(service).Name())
		if s == nil || string(s.FullName()) != service {
			continue
		}
		if m := s.Methods().ByName(protoreflect.Name(name)); m != nil {
			o, _ := m.Options().(*descriptorpb.MethodOptions)
			return o.GetIdempotencyLevel() != descriptorpb.MethodOptions_NO_SIDE_EFFECTS
		}
	}
	return true
}

// Files describe the services.
func Files() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		adminpb.File_rpcgate_admin_v1_apps_proto, adminpb.File_rpcgate_admin_v1_tokens_proto,
		adminpb.File_rpcgate_admin_v1_transfer_proto, adminpb.File_rpcgate_admin_v1_usage_proto,
		adminpb.File_rpcgate_admin_v1_audit_proto,
	}
}

// about takes from a request, or a response, what it is about.
func (e *Entry) about(message any) {
	switch m := message.(type) {
	case *adminpb.IssuedToken:
		e.subject(m.GetToken().GetApp(), m.GetToken().GetId())
		return
	case *adminpb.Token, *adminpb.App:
		return // it repeats the request
	case *adminpb.CreateAppRequest:
		e.subject(m.GetApp().GetId(), "")
		e.Fields = fieldsOf(m.GetApp(), "id", "created", "updated", "version")
	case *adminpb.UpdateAppRequest:
		e.subject(m.GetApp().GetId(), "")
		e.Fields = pathsOf(m.GetUpdateMask(), m.GetApp())
	case *adminpb.IssueTokenRequest:
		e.subject(m.GetApp(), "")
		e.Fields = fieldsOf(m, "app")
	case *adminpb.UpdateTokenRequest:
		e.subject(m.GetToken().GetApp(), m.GetToken().GetId())
		e.Fields = pathsOf(m.GetUpdateMask(), m.GetToken())
	case *adminpb.ImportRecordsRequest:
		e.imports(m)
		return
	case interface{ GetApp() string }:
		id := ""
		if t, ok := message.(interface{ GetId() string }); ok {
			id = t.GetId()
		}
		e.subject(m.GetApp(), id)
	}
}

// imports adds how a record was taken in. Each may be taken in another way.
func (e *Entry) imports(m *adminpb.ImportRecordsRequest) {
	existing := m.GetExisting()
	if existing == adminpb.ImportRecordsRequest_EXISTING_UNSPECIFIED {
		existing = adminpb.ImportRecordsRequest_FAIL
	}
	way := "existing=" + strings.ToLower(existing.String())
	if m.GetDryRun() {
		way = "dry_run"
	}
	if !slices.Contains(e.Fields, way) && len(e.Fields) < maxFields {
		e.Fields = append(e.Fields, way)
	}
}

// malformed stands for what may be a secret that was put into the wrong place, or
// be of any length.
const malformed = "(malformed)"

// subject names what can be a name.
func (e *Entry) subject(app, id string) {
	if app != "" {
		e.App = malformed
		if tenant.ValidateApp(app) == nil && !isOperatorToken(app) {
			e.App = app
		}
	}
	if id != "" {
		e.TokenID = malformed
		if isID(id) {
			e.TokenID = id
		}
	}
}

// isID tells what can be a token's public part: 16 characters of base32.
func isID(id string) bool {
	return len(id) == 16 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// maxFields bounds the names of fields in an entry, and the paths of a mask.
const maxFields = 32

// pathsOf names what a mask has, as far as there is such a field.
func pathsOf(mask *fieldmaskpb.FieldMask, of proto.Message) []string {
	paths := mask.GetPaths()
	names := slices.Clone(paths[:min(len(paths), maxFields)])
	for i, path := range names {
		if _, err := fieldmaskpb.New(of, path); err != nil {
			names[i] = malformed
		}
	}
	if more := len(paths) - maxFields; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return names
}

// fieldsOf names the fields that a message has, but for some.
func fieldsOf(m proto.Message, but ...string) []string {
	var names []string
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if name := string(f.Name()); !slices.Contains(but, name) {
			names = append(names, name)
		}
		return true
	})
	slices.Sort(names)
	return names
}
