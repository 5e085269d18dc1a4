package routes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/rpcgate/rpcgate/config"
)

type (
	question = reflectionpb.ServerReflectionRequest
	answer   = reflectionpb.ServerReflectionResponse
)

// serve starts a real server and gives a connection to it.
func serve(tb testing.TB, register func(*grpc.Server), opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	srv := grpc.NewServer()
	register(srv)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := conn.Close(); err != nil {
			tb.Error(err)
		}
		srv.Stop()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return conn
}

// answering registers a reflection service of one's own making, as v1 or
// v1alpha.
func answering(version string, answerTo func(context.Context, *question) (*answer, error)) func(*grpc.Server) {
	return func(srv *grpc.Server) {
		srv.RegisterService(&grpc.ServiceDesc{
			ServiceName: "grpc.reflection." + version + ".ServerReflection",
			HandlerType: (*any)(nil),
			Streams: []grpc.StreamDesc{{
				StreamName: "ServerReflectionInfo", ServerStreams: true, ClientStreams: true,
				Handler: func(_ any, stream grpc.ServerStream) error {
					for {
						q := new(question)
						if stream.RecvMsg(q) != nil {
							return nil //nolint:nilerr // the caller has gone
						}
						a, err := answerTo(stream.Context(), q)
						if err != nil || a == nil {
							return err
						}
						if err := stream.SendMsg(a); err != nil {
							return err
						}
					}
				},
			}},
		}, nil)
	}
}

func listing(services ...string) *answer {
	list := new(reflectionpb.ListServiceResponse)
	for _, s := range services {
		list.Service = append(list.Service, &reflectionpb.ServiceResponse{Name: s})
	}
	return &answer{MessageResponse: &reflectionpb.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: list}}
}

func sending(tb testing.TB, files ...*descriptorpb.FileDescriptorProto) *answer {
	tb.Helper()
	r := new(reflectionpb.FileDescriptorResponse)
	for _, f := range files {
		b, err := proto.Marshal(f)
		if err != nil {
			tb.Error(err)
		}
		r.FileDescriptorProto = append(r.FileDescriptorProto, b)
	}
	return &answer{MessageResponse: &reflectionpb.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: r}}
}

func failing(code codes.Code, text string) *answer {
	return &answer{MessageResponse: &reflectionpb.ServerReflectionResponse_ErrorResponse{
		ErrorResponse: &reflectionpb.ErrorResponse{ErrorCode: int32(code), ErrorMessage: text},
	}}
}

// frugal answers each question with the one file it is about, which is all that
// the protocol asks for.
func frugal(tb testing.TB, files []*descriptorpb.FileDescriptorProto, services ...string) func(context.Context, *question) (*answer, error) {
	tb.Helper()
	return func(_ context.Context, q *question) (*answer, error) {
		if q.GetListServices() != "" {
			return listing(services...), nil
		}
		for _, f := range files {
			defines := slices.ContainsFunc(f.GetService(), func(s *descriptorpb.ServiceDescriptorProto) bool {
				return f.GetPackage()+"."+s.GetName() == q.GetFileContainingSymbol()
			})
			if f.GetName() == q.GetFileByFilename() || defines {
				return sending(tb, f), nil
			}
		}
		return failing(codes.NotFound, "there is no such thing"), nil
	}
}

type refusingCodec struct{}

func (refusingCodec) Marshal(any) (mem.BufferSlice, error) { return nil, errors.New("raw bytes only") }
func (refusingCodec) Unmarshal(mem.BufferSlice, any) error { return errors.New("raw bytes only") }
func (refusingCodec) Name() string                         { return "proto" }
func realReflection(d *Descriptors) func(srv *grpc.Server) {
	return realReflectionOf(&Registry{backends: []*Descriptors{d}, services: servicesOf(d)})
}

func TestReflect(t *testing.T) {
	want := shop(t)
	files := filesOf(t, want)
	const service = "shop.UserService"
	garbage := &answer{MessageResponse: &reflectionpb.ServerReflectionResponse_FileDescriptorResponse{
		FileDescriptorResponse: &reflectionpb.FileDescriptorResponse{FileDescriptorProto: [][]byte{{0xff}, []byte("x")}},
	}}
	changed := proto.CloneOf(files[len(files)-1])
	changed.Options = &descriptorpb.FileOptions{GoPackage: proto.String("other")}

	tests := []struct {
		name     string
		register func(*grpc.Server)
		opts     []grpc.DialOption
		differs  bool // the files are not all there, or not the same
		warnings []string
	}{
		{name: "v1", register: realReflection(want)},
		{name: "v1alpha only", register: answering("v1alpha", frugal(t, files, service))},
		{name: "one file at a time", register: answering("v1", frugal(t, files, service))},
		{
			name: "over a connection with a codec of its own", register: realReflection(want),
			opts: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.ForceCodecV2(encoding.CodecV2(refusingCodec{})))},
		},
		{
			name:     "without the annotations' file",
			register: answering("v1", frugal(t, filesOf(t, want, "google/api/annotations.proto", "google/api/http.proto"), service)),
			differs:  true,
		},
		{
			name: "a service that cannot be described", register: answering("v1", frugal(t, files, "a.Undescribed", service, "no name!", service)),
			warnings: []string{"service a.Undescribed is listed, but cannot be described: NotFound: there is no such thing"},
		},
		{
			name: "files twice",
			register: answering("v1", func(_ context.Context, q *question) (*answer, error) {
				if q.GetListServices() != "" {
					return listing(service), nil
				}
				return sending(t, append(append(slices.Clone(files), files...), changed)...), nil
			}),
			differs:  true,
			warnings: []string{"file shop/shop.proto is there twice, with different content; the first counts"},
		},
		{
			name: "garbage among the files",
			register: answering("v1", func(ctx context.Context, q *question) (*answer, error) {
				if q.GetFileContainingSymbol() == "a.Garbage" {
					return garbage, nil
				}
				return frugal(t, files, "a.Garbage", service)(ctx, q)
			}),
			warnings: []string{"a file descriptor cannot be parsed", "a file descriptor cannot be parsed"},
		},
		{
			name: "a wrong kind of answer",
			register: answering("v1", func(ctx context.Context, q *question) (*answer, error) {
				if q.GetFileContainingSymbol() == "a.Wrong" {
					return listing(), nil
				}
				return frugal(t, files, "a.Wrong", service)(ctx, q)
			}),
			warnings: []string{"service a.Wrong is listed, but cannot be described: the answer holds no file"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Reflect(t.Context(), serve(t, tt.register, tt.opts...))
			if err != nil {
				t.Fatal(err)
			}
			if got := names(d); !slices.Equal(got, []string{service}) {
				t.Fatalf("serves %v", got)
			}
			rule, err := httpRule(d.Services()[0].Methods().ByName("GetUser"))
			if err != nil || rule.GetGet() != "/v1/users/{id}" {
				t.Errorf("annotation: %v, %v", rule, err)
			}
			if !tt.differs && !d.Equal(want) {
				t.Error("not what was sent")
			}
			if len(d.Warnings()) != len(tt.warnings) {
				t.Fatalf("warnings: %q", d.Warnings())
			}
			for i, w := range tt.warnings {
				if !strings.Contains(d.Warnings()[i], w) {
					t.Errorf("warning %q, want %q", d.Warnings()[i], w)
				}
			}
		})
	}
}

func TestReflectErrors(t *testing.T) {
	always := func(a *answer, err error) func(*grpc.Server) {
		return answering("v1", func(context.Context, *question) (*answer, error) { return a, err })
	}
	many := make([]string, maxReflectionServices+1)
	for i := range many {
		many[i] = fmt.Sprintf("a.S%d", i)
	}
	// A file with an import that nobody has seen, and so on without end.
	endless := func(padding int) func(*grpc.Server) {
		n := 0
		return answering("v1", func(_ context.Context, q *question) (*answer, error) {
			if q.GetListServices() != "" {
				return listing("a.S"), nil
			}
			n++
			return sending(t, &descriptorpb.FileDescriptorProto{
				Name:       proto.String(fmt.Sprintf("%d.proto", n)),
				Package:    proto.String("a" + strings.Repeat("a", padding)),
				Dependency: []string{fmt.Sprintf("%d.proto", n+1)},
			}), nil
		})
	}
	flood := func(n int) func(*grpc.Server) {
		return answering("v1", func(_ context.Context, q *question) (*answer, error) {
			if q.GetListServices() != "" {
				return listing("a.S"), nil
			}
			return &answer{MessageResponse: &reflectionpb.ServerReflectionResponse_FileDescriptorResponse{
				FileDescriptorResponse: &reflectionpb.FileDescriptorResponse{FileDescriptorProto: make([][]byte, n)},
			}}, nil
		})
	}
	text := strings.Repeat("x", maxReflectionMessage-64)
	grumbling := answering("v1", func(_ context.Context, q *question) (*answer, error) {
		if q.GetListServices() != "" {
			return listing(many[:300]...), nil
		}
		return failing(codes.Internal, text), nil
	})
	tests := []struct {
		name     string
		register func(*grpc.Server)
		timeout  time.Duration
		want     string
		code     codes.Code
	}{
		{name: "no service at all", register: func(*grpc.Server) {}, want: ErrNoReflection.Error(), code: codes.Unknown},
		{name: "refused", register: always(nil, status.Error(codes.PermissionDenied, "not you")), want: "not you", code: codes.PermissionDenied},
		{name: "refused in the answer", register: always(failing(codes.PermissionDenied, "not you"), nil), want: "not you", code: codes.PermissionDenied},
		{name: "unimplemented in the answer", register: always(failing(codes.Unimplemented, "no"), nil), want: ErrNoReflection.Error(), code: codes.Unknown},
		{name: "stream ends", register: always(nil, nil), want: "ended the stream", code: codes.Unknown},
		{name: "no list", register: always(&answer{}, nil), want: "does not list", code: codes.Unknown},
		{name: "only services that cannot be described", register: always(listing("a.S"), nil), want: "none of the 1 services", code: codes.Unknown},
		{name: "too many services", register: always(listing(many...), nil), want: "lists more than 4096 services", code: codes.Unknown},
		{name: "endless files", register: endless(0), want: "more than 8192 files", code: codes.Unknown},
		{name: "endless bytes", register: endless(3 << 20), want: "larger than 64 MiB", code: codes.Unknown},
		{
			name: "endless names of imports", want: "more than 8192 files", code: codes.Unknown,
			register: answering("v1", func(_ context.Context, q *question) (*answer, error) {
				switch {
				case q.GetListServices() != "":
					return listing("a.S"), nil
				case q.GetFileContainingSymbol() == "":
					return failing(codes.NotFound, "no"), nil
				}
				f := &descriptorpb.FileDescriptorProto{Name: proto.String("a.proto")}
				for i := range 2 * maxReflectionFiles {
					f.Dependency = append(f.Dependency, strconv.Itoa(i))
				}
				return sending(t, f), nil
			}),
		},
		{name: "empty files in one message", register: flood(2_000_000), want: "more than 8192 files", code: codes.Unknown},
		{name: "empty files in a huge message", register: flood(4_000_000), want: "larger than max", code: codes.ResourceExhausted},
		{name: "long error texts", register: grumbling, want: "larger than 64 MiB", code: codes.Unknown},
		{name: "a huge message", register: endless(5 << 20), want: "larger than max", code: codes.ResourceExhausted},
		{
			name: "silence", timeout: 100 * time.Millisecond, code: codes.DeadlineExceeded,
			register: answering("v1", func(ctx context.Context, _ *question) (*answer, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := t.Context()
			if tt.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.timeout)
				defer cancel()
			}
			_, err := Reflect(ctx, serve(t, tt.register))
			if err == nil || !strings.Contains(err.Error(), tt.want) || status.Code(err) != tt.code {
				t.Errorf("got %v (%v); want …%s… (%v)", err, status.Code(err), tt.want, tt.code)
			}
		})
	}
}

func TestReflectFewAndShortWarnings(t *testing.T) {
	services := []string{"shop.UserService"}
	for i := range 300 {
		services = append(services, fmt.Sprintf("a.S%d", i))
	}
	describe := frugal(t, filesOf(t, shop(t)), services...)
	text := strings.Repeat("x", 4096)
	d, err := Reflect(t.Context(), serve(t, answering("v1", func(ctx context.Context, q *question) (*answer, error) {
		if strings.HasPrefix(q.GetFileContainingSymbol(), "a.") {
			return failing(codes.Internal, text), nil
		}
		return describe(ctx, q)
	})))
	if err != nil {
		t.Fatal(err)
	}
	w := d.Warnings()
	if len(w) != maxWarnings+1 || w[maxWarnings] != "and 236 more" {
		t.Errorf("%d warnings, the last %q", len(w), w[len(w)-1])
	}
	for _, w := range w {
		if len(w) > 512+len("…") {
			t.Errorf("a warning of %d bytes", len(w))
		}
	}
}

// A gateway's own reflection, asked by a gateway: the registry gives what the
// backends gave.
func TestReflectRegistry(t *testing.T) {
	users := shop(t)
	orders := compileText(t, map[string]string{
		"orders.proto": `syntax = "proto3"; package orders; service Orders { rpc Get(X) returns (X); } message X {}`,
	}, "orders.proto")
	table, err := Build([]Input{
		{config.Backend{Name: "users", Annotations: true}, users},
		{config.Backend{Name: "orders"}, orders},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Reflect(t.Context(), serve(t, realReflectionOf(table.Registry())))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(d); !slices.Equal(got, []string{"orders.Orders", "shop.UserService"}) {
		t.Errorf("serves %v", got)
	}
	if got, err := table.Registry().FindDescriptorByName("orders.Orders.Get"); err != nil || got.FullName() != "orders.Orders.Get" {
		t.Error(got, err)
	}
}

func realReflectionOf(r *Registry) func(*grpc.Server) {
	return func(srv *grpc.Server) {
		reflectionpb.RegisterServerReflectionServer(srv, reflection.NewServerV1(reflection.ServerOptions{
			Services: r, DescriptorResolver: r, ExtensionResolver: r,
		}))
	}
}
