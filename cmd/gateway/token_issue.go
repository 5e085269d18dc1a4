package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/auth/tenant"
)

func newTokenIssue() *cobra.Command {
	var store storeFlags
	var o tenant.IssueOptions
	cmd := &cobra.Command{
		Use:   "issue",
		Short: "Make a token for an app and print it, this once",
		Long: `Make a token for an app and print it. Redis keeps only a hash of it, so it
cannot be shown again. An app may have several tokens.

The token alone goes to standard output.`,
		Example: `  gateway token issue --app acme --redis 127.0.0.1:6379
  TOKEN=$(gateway token issue --app acme --note "billing job" --ttl 720h -c gateway.yaml)`,
		Args: noArgs,
	}
	store.add(cmd)
	format := outputFlag(cmd)
	cmd.Flags().StringVar(&o.App, "app", "", "the `APP` that may call with it (needed)")
	cmd.Flags().StringVar(&o.Note, "note", "", "a `TEXT` to know it by")
	cmd.Flags().DurationVar(&o.TTL, "ttl", 0, "how long it is valid; 0: until revoked")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needApp(o.App); err != nil {
			return err
		}
		if err := notNegative("ttl", o.TTL); err != nil {
			return err
		}
		return store.with(cmd.Context(), func(ctx context.Context, s *tenant.Store) error {
			issued, err := s.Issue(ctx, o)
			if err != nil {
				return err
			}
			return printIssued(cmd, *format, issued, "")
		})
	}
	return cmd
}

func notNegative(flag string, d time.Duration) error {
	if d < 0 {
		return usagef("--%s must not be negative", flag)
	}
	return nil
}
