package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	"google.golang.org/grpc"
)

// The pipeline's recover step has its calls. These are for what runs outside
// it: the front ends themselves, and the gateway's own services.

// logPanic logs a panic that is not part of a call's pipeline.
func (g *Gateway) logPanic(ctx context.Context, value any) {
	g.log.LogAttrs(ctx, slog.LevelError, "panic outside the pipeline",
		slog.Any("panic", value), slog.String("stack", string(debug.Stack())))
}

// recoverOutside makes a panic the failure of one gRPC call. It is deferred.
func (g *Gateway) recoverOutside(ctx context.Context, err *error) {
	if v := recover(); v != nil {
		g.logPanic(ctx, v)
		*err = describe(&panicError{value: v}).Status().Err()
	}
}

// abortPanicked makes a panic the end of one HTTP request. It is deferred.
func (g *Gateway) abortPanicked(ctx context.Context) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		g.logPanic(ctx, v)
	}
	panic(http.ErrAbortHandler)
}

// recoverStreams and recoverUnary guard the health and reflection services,
// which walk what backends sent.
func (g *Gateway) recoverStreams(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer g.recoverOutside(ss.Context(), &err)
	return next(srv, ss)
}

func (g *Gateway) recoverUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer g.recoverOutside(ctx, &err)
	return next(ctx, req)
}
