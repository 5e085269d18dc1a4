package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

func newTokenRevoke() *cobra.Command {
	var where apiFlags
	var app, id string
	var all, yes bool
	cmd := &cobra.Command{
		Use:   "revoke",
		Short: "Make a token, or all of an app's, invalid at once",
		Long: `Make a token, or all tokens of an app, invalid in Redis. Every gateway that is
connected to it forgets them within a second and closes their connections.
A revoked token stays listed, as revoked, for 30 days.`,
		Example: `  gateway token revoke --app acme --id k7wq2mz4ntd3x5pb --redis 127.0.0.1:6379
  gateway token revoke --app acme --all -c gateway.yaml`,
		Args: noArgs,
	}
	where.add(cmd)
	format := outputFlag(cmd)
	cmd.Flags().StringVar(&app, "app", "", "the token's `APP` (needed)")
	cmd.Flags().StringVar(&id, "id", "", "the token's `ID`, as list shows it")
	cmd.Flags().BoolVar(&all, "all", false, "all tokens of the app; at a terminal, with --yes")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it, though it cannot be undone")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needApp(app); err != nil {
			return err
		}
		switch {
		case id == "" && !all:
			return usagef("say which token: --id ID, or --all")
		case id != "" && all:
			return usagef("give --id or --all, not both")
		}
		if all {
			if err := needYes(cmd, yes, "this ends all tokens of app "+app); err != nil {
				return err
			}
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			ctx, cancel := limited(ctx)
			defer cancel()
			var err error
			if all {
				_, err = a.tokens.RevokeTokens(ctx, &adminpb.RevokeTokensRequest{App: app})
			} else {
				_, err = a.tokens.RevokeToken(ctx, &adminpb.RevokeTokenRequest{App: app, Id: id})
			}
			switch {
			case all && isCode(err, codes.NotFound):
				return fmt.Errorf("app %s has no tokens", app)
			case err != nil:
				return err
			}
			if *format == outputJSON {
				return printJSON(cmd.OutOrStdout(), struct {
					App     string `json:"app"`
					ID      string `json:"id,omitempty"` // absent: all of them
					Revoked bool   `json:"revoked"`
				}{app, id, true})
			}
			what := "token " + id
			if all {
				what = "all tokens"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Revoked %s of app %s.\n", what, app)
			return err
		})
	}
	return cmd
}
