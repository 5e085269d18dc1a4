package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/auth/tenant"
)

func newTokenList() *cobra.Command {
	var store storeFlags
	var app string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Example: `  gateway token list --redis 127.0.0.1:6379
  gateway token list --app acme -c gateway.yaml --output json`,
		Args: noArgs,
	}
	store.add(cmd)
	format := outputFlag(cmd)
	cmd.Flags().StringVar(&app, "app", "", "only the tokens of `APP`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("app") {
			if err := needApp(app); err != nil {
				return err
			}
		}
		return store.with(cmd.Context(), func(ctx context.Context, s *tenant.Store) error {
			tokens, err := s.List(ctx, app)
			if err != nil {
				return err
			}
			now := time.Now()
			if *format == outputJSON {
				list := make([]tokenJSON, 0, len(tokens)) // [], not null
				for _, t := range tokens {
					list = append(list, tokenJSON{t, tokenState(t, now)})
				}
				return printJSON(cmd.OutOrStdout(), list)
			}
			rows := make([][]string, 0, len(tokens))
			for _, t := range tokens {
				rows = append(rows, []string{t.App, t.ID, instant(t.Created, "-"), instant(t.Expires, "never"), tokenState(t, now), t.Note})
			}
			return printTable(cmd.OutOrStdout(), []string{"APP", "ID", "CREATED", "EXPIRES", "STATE", "NOTE"}, rows)
		})
	}
	return cmd
}

// tokenJSON is a token as scripts get it.
type tokenJSON struct {
	tenant.Token
	State string `json:"state"`
}

// tokenState is what the token is good for, in a word or two.
func tokenState(t tenant.Token, now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "revoked"
	case !t.Expires.IsZero() && !t.Expires.After(now):
		return "expired"
	case t.ReplacedBy != "":
		return "replaced by " + t.ReplacedBy
	default:
		return "valid"
	}
}
