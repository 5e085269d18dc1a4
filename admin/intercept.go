package admin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

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
	file, err := s.audit.open()
	if err != nil {
		return nil, s.unaudited(err)
	}
	defer s.audit.end(file)
	resp, err := next(ctx, req)
	err = s.status(ctx, method, err)
	e := Entry{Operator: OperatorOf(ctx), Method: method}
	e.about(req)
	if err == nil {
		e.about(resp)
	}
	s.noted(ctx, file, e.with(err))
	return resp, err
}

// Stream is the interceptor for streams.
func (s *Service) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	method := strings.TrimPrefix(info.FullMethod, "/")
	file, err := s.audit.open()
	if err != nil {
		return s.unaudited(err)
	}
	defer s.audit.end(file)
	err = s.status(stream.Context(), method, next(srv, stream))
	s.noted(stream.Context(), file, Entry{Operator: OperatorOf(stream.Context()), Method: method}.with(err))
	return err
}

// unaudited keeps what cannot be noted from being done.
func (s *Service) unaudited(err error) error {
	s.log.Error("nothing is changed", slog.Any("error", err))
	return statusError(codes.Unavailable, "AUDIT_UNAVAILABLE", "the audit log cannot be written, so nothing is changed")
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
		e.Fields = m.GetUpdateMask().GetPaths()
	case *adminpb.IssueTokenRequest:
		e.subject(m.GetApp(), "")
		e.Fields = fieldsOf(m, "app")
	case *adminpb.UpdateTokenRequest:
		e.subject(m.GetToken().GetApp(), m.GetToken().GetId())
		e.Fields = m.GetUpdateMask().GetPaths()
	case interface{ GetApp() string }:
		id := ""
		if t, ok := message.(interface{ GetId() string }); ok {
			id = t.GetId()
		}
		e.subject(m.GetApp(), id)
	}
	e.Fields = bounded(e.Fields)
}

// subject names what can be a name. What cannot may be a secret that was put
// into the wrong place, or be of any length.
func (e *Entry) subject(app, id string) {
	if app != "" {
		e.App = "(malformed)"
		if tenant.ValidateApp(app) == nil {
			e.App = app
		}
	}
	if id != "" {
		e.TokenID = "(malformed)"
		if isID(id) {
			e.TokenID = id
		}
	}
}

// isID tells what can be a token's public part: 16 characters of base32.
func isID(id string) bool {
	return len(id) == 16 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// Bounds of the names of fields in an entry, which a caller makes up.
const (
	maxFields = 32
	maxField  = 64
)

func bounded(fields []string) []string {
	more := len(fields) - maxFields
	fields = slices.Clone(fields[:min(len(fields), maxFields)])
	for i, f := range fields {
		fields[i] = f[:min(len(f), maxField)]
	}
	if more > 0 {
		fields = append(fields, fmt.Sprintf("and %d more", more))
	}
	return fields
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
