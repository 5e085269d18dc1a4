package gateway

import (
	"fmt"
	"runtime"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // callers and backends may compress with it
	"google.golang.org/grpc/encoding/proto"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// streamWorkers is how many calls of each processor find a goroutine waiting
// for them. While it waits it costs some KiB.
const streamWorkers = 64

// Windows of flow control, in bytes: how much of a call's messages, and of a
// connection's, callers may send ahead of what the backend takes. grpc-go would
// find them out by itself, with a ping for nearly every small call, and let them
// grow to 16 MiB a call. A larger message widens its window for as long as it
// takes.
const (
	streamWindow = 1 << 20
	connWindow   = 16 << 20
)

// newGRPCServer makes the native gRPC server: every method that is not the
// gateway's own goes to the front end.
func newGRPCServer(g *Gateway, cfg config.GRPC, h *healthServer) (*grpc.Server, error) {
	front := newGRPCFront(g)
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(serverCodec{raw: rpcproxy.RawCodec(), proto: encoding.GetCodecV2(proto.Name)}),
		grpc.UnknownServiceHandler(front.handle),
		grpc.InTapHandle(keepMetadata),
		grpc.StreamInterceptor(g.recoverStreams),
		grpc.UnaryInterceptor(g.recoverUnary),
		grpc.MaxRecvMsgSize(int(cfg.MaxMessageSize)),
		grpc.MaxHeaderListSize(uint32(cfg.MaxHeaderSize)),
		grpc.MaxConcurrentStreams(cfg.MaxConcurrentStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: cfg.Keepalive.Time, Timeout: cfg.Keepalive.Timeout,
			MaxConnectionAge: cfg.Keepalive.MaxConnectionAge, MaxConnectionAgeGrace: cfg.Keepalive.MaxConnectionAgeGrace,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: cfg.Keepalive.MinTime, PermitWithoutStream: true,
		}),
		// Workers keep their grown stacks between calls. A call that finds none
		// free gets a goroutine of its own, which growStack is for.
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0)) * streamWorkers),
		grpc.WaitForHandlers(true),
	}
	if cfg.TLS != nil {
		tlsConfig, err := serverTLS(cfg.TLS, g.log)
		if err != nil {
			return nil, fmt.Errorf("grpc.tls: %w", err)
		}
		opts = append(opts, grpc.Creds(credentials.NewTLS(tlsConfig)))
	}
	srv := grpc.NewServer(opts...)
	healthpb.RegisterHealthServer(srv, h)
	if cfg.Reflection {
		registerReflection(srv, reflectionView{g})
	}
	return srv, nil
}

// serverCodec leaves the front end's frames as bytes, and does protobuf for the
// gateway's own services, health and reflection.
type serverCodec struct{ raw, proto encoding.CodecV2 }

func (c serverCodec) Name() string { return c.raw.Name() }

func (c serverCodec) Marshal(v any) (mem.BufferSlice, error) {
	if _, ok := v.(*rpcproxy.Frame); ok {
		return c.raw.Marshal(v)
	}
	return c.proto.Marshal(v)
}

func (c serverCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, ok := v.(*rpcproxy.Frame); ok {
		return c.raw.Unmarshal(data, v)
	}
	return c.proto.Unmarshal(data, v)
}
