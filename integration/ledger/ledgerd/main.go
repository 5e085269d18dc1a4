// Command ledgerd is a backend for tests of faults: ledger.Ledger, which
// journals each execution before it answers. It registers in etcd if asked to,
// and on SIGTERM it leaves in order: it deregisters, then finishes its calls.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/discovery"
	"github.com/rpcgate/rpcgate/integration/ledger/ledgerpb"
)

// options are the command's flags.
type options struct {
	name, listen, journal   string
	etcd, key, advertise    string
	work, acceptAfter, gone time.Duration
	ttl                     time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "", "the endpoint's `name` in its answers")
	flag.StringVar(&o.listen, "listen", "", "`host:port` to serve on")
	flag.StringVar(&o.journal, "journal", "", "`file` that executions are appended to")
	flag.StringVar(&o.etcd, "etcd", "", "`host:port` of the etcd to register in; empty: do not register")
	flag.StringVar(&o.key, "key", "ledger.rpc", "the `key` to register under")
	flag.StringVar(&o.advertise, "advertise", "", "`host:port` to register")
	flag.DurationVar(&o.ttl, "ttl", 0, "how long its entry outlives it; 0: discovery's default")
	flag.DurationVar(&o.work, "work", 0, "how long a call takes")
	flag.DurationVar(&o.acceptAfter, "accept-after", 0, "how long connections wait until they are served")
	flag.DurationVar(&o.gone, "gone", 0, "how long after its deregistration it goes on, so that everybody hears of it")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "ledgerd:", err)
		os.Exit(1)
	}
}

// minPing is how often clients may ping: as often as grpc-go's clients ever do.
const minPing = 5 * time.Second

func run(ctx context.Context, o options) error {
	journal, err := os.OpenFile(o.journal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()
	var listener net.ListenConfig
	lis, err := listener.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	wait(ctx, o.acceptAfter) // the kernel completes handshakes meanwhile

	server := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}))
	ledgerpb.RegisterLedgerServer(server, &ledger{name: o.name, instance: os.Getpid(), work: o.work, journal: journal})
	healthServer := health.NewServer()
	healthpb.RegisterHealthServer(server, healthServer)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()

	if err := register(ctx, o); err != nil {
		server.Stop()
		return errors.Join(err, <-served)
	}
	wait(context.WithoutCancel(ctx), o.gone)
	healthServer.Shutdown()
	server.GracefulStop()
	return <-served
}

// register keeps the server registered until ctx ends.
func register(ctx context.Context, o options) error {
	if o.etcd == "" {
		<-ctx.Done()
		return nil
	}
	cli, err := discovery.Dial(config.Etcd{Endpoints: []string{o.etcd}, DialTimeout: 3 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = cli.Close() }() // the entry is gone by then, and nothing else is kept
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	entry, err := discovery.NewRegistration(cli, discovery.RegisterOptions{Key: o.key, Address: o.advertise, TTL: o.ttl}, log)
	if err != nil {
		return err
	}
	if err := entry.Run(ctx); err != nil {
		log.Warn("leaving without having deregistered", "error", err) // etcd may be what is at fault
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
