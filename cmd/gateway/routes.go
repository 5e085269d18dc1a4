package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/telemetry"
)

func newRoutes(takeLogs func(*slog.Logger)) *cobra.Command {
	var file string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "routes",
		Short: "Print the route table of a configuration",
		Long: `Print the route table that a configuration gives, from descriptors on disk or by
asking the backends by gRPC reflection. Where a backend does not answer, or a
route has a fault, the table is printed that would be served all the same, and
the exit status is 1.`,
		Example: `  gateway routes -c etc/gateway.yaml
  gateway routes -c etc/gateway.yaml --output json --timeout 2s`,
		Args: noArgs,
	}
	configFlag(cmd, &file)
	format := outputFlag(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for backends that are asked")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withTable(cmd, file, timeout, takeLogs, func(_ *config.Config, table *routes.Table) error {
			return showRoutes(cmd.OutOrStdout(), *format, table.Routes())
		})
	}
	return cmd
}

// withTable has show show the route table of a configuration, with what would be
// served all the same if backends do not answer or routes have faults. These are
// told after it.
func withTable(
	cmd *cobra.Command, file string, timeout time.Duration, takeLogs func(*slog.Logger), show func(*config.Config, *routes.Table) error,
) error {
	if file == "" {
		return usagef("-c FILE is missing")
	}
	if timeout <= 0 {
		return usagef("--timeout must be positive")
	}
	cfg, err := config.Load(file)
	if err != nil {
		return err
	}
	cfg.Log.Level = "error" // what fails is told below
	log := telemetry.NewLogger(cfg.Log, cmd.ErrOrStderr())
	takeLogs(log)
	p, err := wireOut(cfg, log)
	if err != nil {
		return err
	}
	defer p.close()
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	inputs, missing := p.loadDescriptors(ctx)
	table, faults := routes.Build(inputs, cfg.Routes)
	if err := show(cfg, table); err != nil {
		return err
	}
	told := tellRouteFaults(cmd.ErrOrStderr(), cfg, faults)
	if missing != nil {
		return missing
	}
	return told
}

// tellRouteFaults writes what keeps the table from being what the file asks for.
func tellRouteFaults(w io.Writer, cfg *config.Config, err error) error {
	if err == nil {
		return nil
	}
	faults := routeFaults(cfg, err)
	slices.SortStableFunc(faults, func(a, b config.Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for _, f := range faults {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	return errReported
}

// loadDescriptors gets the descriptors of all backends, at once. Those that
// cannot be had are nil in the inputs and named in the error.
func (p *parts) loadDescriptors(ctx context.Context) ([]routes.Input, error) {
	inputs := make([]routes.Input, len(p.cfg.Backends))
	faults := make([]error, len(p.cfg.Backends))
	var loads sync.WaitGroup
	for i, b := range p.cfg.Backends {
		loads.Go(func() {
			d, err := routes.Load(ctx, b, p.out.inForce[b.Name].AcquireShared)
			inputs[i] = routes.Input{Backend: b, Descriptors: d}
			if err != nil {
				faults[i] = fmt.Errorf("backend %s: %w", b.Name, err)
			}
		})
	}
	loads.Wait()
	return inputs, errors.Join(faults...)
}

// routeJSON is a route as scripts get it.
type routeJSON struct {
	Method          string `json:"method"` // HTTP's; "GRPC" for a route that gRPC callers take
	Path            string `json:"path"`
	Backend         string `json:"backend"`
	RPC             string `json:"rpc"`
	Source          string `json:"source"`
	Auth            string `json:"auth"`
	ClientStreaming bool   `json:"client_streaming"`
	ServerStreaming bool   `json:"server_streaming"`
}

func newRouteJSON(r *routes.Route) routeJSON {
	j := routeJSON{
		Method: r.HTTPMethod, Path: r.Template, Backend: r.Backend, RPC: r.FullMethod, Source: r.Source,
		Auth: "required", ClientStreaming: r.ClientStreams, ServerStreaming: r.ServerStreams,
	}
	if r.Source == routes.SourceGRPC {
		j.Method, j.Path = "GRPC", r.FullMethod
	}
	if r.AuthNone {
		j.Auth = "none"
	}
	return j
}

func showRoutes(w io.Writer, format output, table []*routes.Route) error {
	if format == outputText {
		return printRoutes(w, table)
	}
	list := make([]routeJSON, 0, len(table))
	for _, r := range table {
		list = append(list, newRouteJSON(r))
	}
	return printJSON(w, list)
}

func printRoutes(w io.Writer, table []*routes.Route) error {
	rows := make([][]string, 0, len(table))
	for _, r := range table {
		j := newRouteJSON(r)
		rows = append(rows, []string{j.Method, j.Path, j.Backend, j.RPC, j.Source, j.Auth})
	}
	return printTable(w, []string{"METHOD", "PATH", "BACKEND", "RPC", "SOURCE", "AUTH"}, rows)
}
