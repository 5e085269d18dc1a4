package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/auth/tenant"
)

func newTokenRevoke() *cobra.Command {
	var store storeFlags
	var app, id string
	var all bool
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
	store.add(cmd)
	format := outputFlag(cmd)
	cmd.Flags().StringVar(&app, "app", "", "the token's `APP` (needed)")
	cmd.Flags().StringVar(&id, "id", "", "the token's `ID`, as list shows it")
	cmd.Flags().BoolVar(&all, "all", false, "all tokens of the app")
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
		return store.with(cmd.Context(), func(ctx context.Context, s *tenant.Store) error {
			err := s.Revoke(ctx, app, id)
			switch {
			case all && errors.Is(err, tenant.ErrNoToken):
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
