package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"google.golang.org/grpc/grpclog"
)

// grpcLinesPerSecond bounds what grpc-go may write: a dead backend makes it warn
// once per connection and attempt, and there may be a thousand connections.
const grpcLinesPerSecond = 20

// RouteGRPCLog sends grpc-go's own log to l, at most 20 lines a second: its
// warnings at level debug and its errors as warnings. They name no backend and
// tell again, for each connection, what the access log and the backends' own
// lines tell. grpc-go reads its logger without a lock, so main calls this
// once, before anything of gRPC runs.
func RouteGRPCLog(l *slog.Logger) { grpclog.SetLoggerV2(newGRPCLogger(l)) }

// grpcLogger is a grpclog.LoggerV2.
type grpcLogger struct {
	log  *slog.Logger
	gate *floodgate
}

func newGRPCLogger(l *slog.Logger) *grpcLogger {
	return &grpcLogger{log: l.With(slog.String("component", "grpc-go")), gate: &floodgate{limit: grpcLinesPerSecond}}
}

func (g *grpcLogger) write(level slog.Level, text func() string) {
	ctx := context.Background()
	if !g.log.Enabled(ctx, level) {
		return
	}
	suppressed, ok := g.gate.allow()
	if !ok {
		return
	}
	var attrs []slog.Attr
	if suppressed > 0 {
		attrs = append(attrs, slog.Int64("suppressed", suppressed))
	}
	g.log.LogAttrs(ctx, level, strings.TrimRight(text(), "\n"), attrs...) //nolint:sloglint // the message is grpc-go's
}

func (g *grpcLogger) Info(...any)          {}
func (g *grpcLogger) Infoln(...any)        {}
func (g *grpcLogger) Infof(string, ...any) {}

func (g *grpcLogger) Warning(args ...any) {
	g.write(slog.LevelDebug, func() string { return fmt.Sprint(args...) })
}

func (g *grpcLogger) Warningln(args ...any) {
	g.write(slog.LevelDebug, func() string { return fmt.Sprintln(args...) })
}

func (g *grpcLogger) Warningf(format string, args ...any) {
	g.write(slog.LevelDebug, func() string { return fmt.Sprintf(format, args...) })
}

func (g *grpcLogger) Error(args ...any) {
	g.write(slog.LevelWarn, func() string { return fmt.Sprint(args...) })
}

func (g *grpcLogger) Errorln(args ...any) {
	g.write(slog.LevelWarn, func() string { return fmt.Sprintln(args...) })
}

func (g *grpcLogger) Errorf(format string, args ...any) {
	g.write(slog.LevelWarn, func() string { return fmt.Sprintf(format, args...) })
}

// The Fatal methods end the process, as grpclog asks of a LoggerV2.

func (g *grpcLogger) Fatal(args ...any)            { g.fatal(fmt.Sprint(args...)) }
func (g *grpcLogger) Fatalln(args ...any)          { g.fatal(fmt.Sprintln(args...)) }
func (g *grpcLogger) Fatalf(f string, args ...any) { g.fatal(fmt.Sprintf(f, args...)) }

func (g *grpcLogger) fatal(text string) {
	g.log.Error(strings.TrimRight(text, "\n")) //nolint:sloglint // the message is grpc-go's
	os.Exit(1)                                 //nolint:forbidigo // a LoggerV2 must
}

// V reports whether messages of the given verbosity are wanted: none is.
func (g *grpcLogger) V(int) bool { return false }
