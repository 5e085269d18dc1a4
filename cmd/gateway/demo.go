package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/gateway"
	"github.com/rpcgate/rpcgate/telemetry"
)

// demoDrainTimeout is short: whoever tries things out has streams open and wants
// out.
const demoDrainTimeout = 3 * time.Second

type demoOptions struct {
	http, grpc, admin string
	envFile           string
}

// check finds addresses that are none.
func (o *demoOptions) check() error {
	for _, f := range []struct{ flag, address string }{{"http", o.http}, {"grpc", o.grpc}, {"admin", o.admin}} {
		if err := needListenAddress(f.flag, f.address); err != nil {
			return err
		}
	}
	return nil
}

func newDemo(takeLogs func(*slog.Logger)) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serve a demo backend, with nothing else needed",
		Long: `Serve the demo backend shop through a gateway, all in this process, with a
token store in memory, and print what to call it with. It ends on SIGINT or
SIGTERM.

With --env-file, shell lines HTTP=, GRPC=, ADMIN=, REDIS=, APP= and TOKEN= are
written to a file once the gateway is ready.`,
		Example: `  gateway demo
  gateway demo --http 127.0.0.1:0 --grpc 127.0.0.1:0 --admin 127.0.0.1:0 --env-file demo.env`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			log := telemetry.NewLogger(config.Log{Level: "warn", Format: "text"}, cmd.ErrOrStderr())
			// A stream that is ended at the terminal is a warning to libraries.
			takeLogs(telemetry.NewLogger(config.Log{Level: "error", Format: "text"}, cmd.ErrOrStderr()))
			return runDemo(cmd.Context(), o, cmd.OutOrStdout(), log)
		},
	}
	cmd.Flags().StringVar(&o.http, "http", "127.0.0.1:8080", "`ADDRESS` for HTTP/JSON; port 0: any free one")
	cmd.Flags().StringVar(&o.grpc, "grpc", "127.0.0.1:9090", "`ADDRESS` for gRPC")
	cmd.Flags().StringVar(&o.admin, "admin", "127.0.0.1:9091", "`ADDRESS` for operators")
	cmd.Flags().StringVar(&o.envFile, "env-file", "", "write the addresses and the token to `FILE` once ready")
	return cmd
}

func runDemo(ctx context.Context, o demoOptions, stdout io.Writer, log *slog.Logger) error {
	if err := prepareEnvFile(o.envFile); err != nil {
		return err
	}
	store, err := startDemoStore(ctx)
	if err != nil {
		return err
	}
	defer store.close()
	shop, err := startDemoShop(ctx)
	if err != nil {
		return err
	}
	defer shop.close()

	cfg := demoConfig(o, store.address, shop.address)
	if err := cfg.Validate(); err != nil {
		return err
	}
	err = serveConfig(ctx, cfg, "", log, func(gw *gateway.Gateway) error {
		ready := demoReady{
			HTTP: dialable(gw.HTTPAddr()), GRPC: dialable(gw.GRPCAddr()), Admin: dialable(gw.AdminAddr()),
			Redis: store.address, App: store.app, Token: store.token,
		}
		if err := ready.print(stdout, gw.Routes()); err != nil {
			return err
		}
		if o.envFile == "" {
			return nil
		}
		return ready.writeEnvFile(o.envFile)
	})
	return portTaken(err)
}

// portTaken says by which flag another port is chosen, where err is that one is
// taken: the demo has no config file whose keys it could name.
func portTaken(err error) error {
	var op *net.OpError
	if !errors.Is(err, syscall.EADDRINUSE) || !errors.As(err, &op) {
		return err
	}
	listener, _, ok := strings.Cut(err.Error(), ".address: ")
	if !ok {
		return err
	}
	return fmt.Errorf("--%s: %w; try --%s 127.0.0.1:0", listener, op, listener)
}

func demoConfig(o demoOptions, redis, shop string) *config.Config {
	cfg := config.Defaults()
	cfg.HTTP.Address, cfg.GRPC.Address, cfg.Admin.Address = o.http, o.grpc, o.admin
	cfg.HTTP.OpenAPI = true
	cfg.GRPC.Reflection = true
	cfg.Redis.Addresses = []string{redis}
	cfg.Shutdown.Delay, cfg.Shutdown.DrainTimeout = 0, demoDrainTimeout
	b := config.DefaultBackend("shop")
	b.Endpoints = []string{shop}
	b.Reflection = true
	b.DefaultBinding = true
	cfg.Backends = []config.Backend{b}
	return cfg
}

// dialable is where a listener is reached from this machine: one that listens
// on all addresses is reached on the loopback one. A listener that is off is "".
func dialable(a net.Addr) string {
	if a == nil {
		return ""
	}
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
