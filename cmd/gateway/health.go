package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newHealth() *cobra.Command {
	var admin string
	var timeout time.Duration
	var trust operatorFlags
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running gateway whether it is ready",
		Long: `Ask a running gateway, on its admin port, whether it is ready to take calls.
For health checks of containers, where there is no shell and no curl.`,
		Example: `  gateway health --admin 127.0.0.1:9091`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, base, err := trust.client(admin)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return askReady(ctx, cmd.OutOrStdout(), client, base)
		},
	}
	cmd.Flags().StringVar(&admin, "admin", "127.0.0.1:9091", "the gateway's admin `ADDRESS`, or https://ADDRESS")
	trust.addTrust(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

func askReady(ctx context.Context, out io.Writer, client *http.Client, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return usagef("--admin: %q is not host:port", base)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the gateway: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("asking the gateway: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s: %s", resp.Status, strings.TrimSpace(string(answer)))
	}
	_, err = fmt.Fprintln(out, strings.TrimSpace(string(answer)))
	return err
}
