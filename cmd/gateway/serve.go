package main

import (
	"log/slog"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/telemetry"
)

func newServe(takeLogs func(*slog.Logger)) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a configuration",
		Long: `Serve a configuration until SIGINT or SIGTERM. Then calls in flight may finish
within shutdown.drain_timeout, and the exit status is 0. A second signal ends
the process at once. SIGHUP reads the file again, and puts its backends and
routes in force without losing a call. The log goes to standard error.`,
		Example: `  gateway serve -c etc/gateway.yaml`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("-c FILE is missing")
			}
			cfg, err := config.Load(file)
			if err != nil {
				return err
			}
			log := telemetry.NewLogger(cfg.Log, cmd.ErrOrStderr())
			takeLogs(log)
			defer runtime.KeepAlive(tuneMemory(log))
			return serveConfig(cmd.Context(), cfg, file, log, nil)
		},
	}
	configFlag(cmd, &file)
	return cmd
}

// configFlag adds -c to cmd.
func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "the configuration `FILE`")
}
