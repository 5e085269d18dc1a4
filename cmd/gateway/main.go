// Command gateway is rpcgate on the command line: it serves a configuration,
// shows itself off (demo), checks configurations, prints route tables, and
// issues, lists, rotates and revokes tokens.
//
// Its exit status is 0, 1 when what was asked for failed, 2 when it was asked
// for in the wrong way, and 130 when a second signal ended it at once.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/gateway/wire"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/telemetry"
)

// version is set by the linker in release builds; see currentBuild.
var version string

func main() {
	balancer.Register()
	wire.Register()
	takeLogs(slog.New(slog.DiscardHandler)) // until a command has a log; the others say themselves what failed
	ctx, stop := interruptible(context.Background())
	status := run(ctx, process{stdout: os.Stdout, stderr: os.Stderr, takeLogs: takeLogs}, os.Args[1:])
	stop()
	os.Exit(status)
}

// takeLogs sends what libraries log, which have one logger for the whole
// process, to log. It comes before anything of theirs runs.
func takeLogs(log *slog.Logger) {
	telemetry.RouteGRPCLog(log)
	auth.RouteRedisLog(log)
}

// interruptible returns a context that the first SIGINT or SIGTERM ends, so that
// whatever runs can end in order. A second one ends the process at once, with
// the status that shells give to one that was interrupted. It is done by hand,
// not left to the signal's default, because a process that is the first of its
// container has no default action.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx, cancel
}
