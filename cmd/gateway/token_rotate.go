package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

func newTokenRotate() *cobra.Command {
	var where apiFlags
	var app, id string
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Put a new token in place of an old one, which stays valid for a while",
		Long: `Make a new token with the note and the lifetime of an old one, and print it as
issue does. The old one stays valid for --grace, so that its users can change
over; with --grace 0s it is revoked at once.`,
		Example: `  gateway token rotate --app acme --id k7wq2mz4ntd3x5pb --grace 24h --redis 127.0.0.1:6379`,
		Args:    noArgs,
	}
	where.add(cmd)
	format := outputFlag(cmd)
	cmd.Flags().StringVar(&app, "app", "", "the token's `APP` (needed)")
	cmd.Flags().StringVar(&id, "id", "", "the old token's `ID`, as list shows it (needed)")
	cmd.Flags().DurationVar(&grace, "grace", time.Hour, "how long the old token stays valid")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if app == "" || id == "" {
			return usagef("--app and --id say which token to rotate")
		}
		if err := needApp(app); err != nil {
			return err
		}
		if err := notNegative("grace", grace); err != nil {
			return err
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			ctx, cancel := limited(ctx)
			defer cancel()
			issued, err := a.tokens.RotateToken(ctx, &adminpb.RotateTokenRequest{App: app, Id: id, Grace: durationpb.New(grace)})
			if err != nil {
				return err
			}
			remark := fmt.Sprintf(" The old token %s stays valid for %s.", id, grace)
			if grace == 0 {
				remark = fmt.Sprintf(" The old token %s is revoked.", id)
			}
			return printIssued(cmd, *format, issued, remark)
		})
	}
	return cmd
}
