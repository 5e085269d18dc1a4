package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

func newTokenList() *cobra.Command {
	var where apiFlags
	var app string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Long: `List the tokens of an app, or of all apps, without their secrets, as they are
read, by app and id: there may be many. What comes and goes meanwhile may be
missing; nothing comes twice.`,
		Example: `  gateway token list --redis 127.0.0.1:6379
  gateway token list --app acme -c gateway.yaml --output json`,
		Args: noArgs,
	}
	where.add(cmd)
	format := listFlag(cmd)
	cmd.Flags().StringVar(&app, "app", "", "only the tokens of `APP`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("app") {
			if err := needApp(app); err != nil {
				return err
			}
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			now := time.Now()
			columns := []string{"APP", "ID", "CREATED", "EXPIRES", "STATE", "NOTE"}
			if format.output == outputCSV {
				columns = append(columns, "LAST-USED", "SCOPES", "NETWORKS", "LIMITS")
			}
			out := newRows(cmd.OutOrStdout(), format, columns...)
			return pages(ctx, out, func(ctx context.Context, token string) (string, error) {
				page, err := a.tokens.ListTokens(ctx, &adminpb.ListTokensRequest{App: app, PageSize: listPage, PageToken: token})
				if err != nil || len(page.GetTokens()) == 0 {
					return page.GetNextPageToken(), err
				}
				var cells [][]string
				var values []any
				for _, t := range page.GetTokens() {
					cells = append(cells, []string{
						t.GetApp(), t.GetId(), when(t.GetCreated(), "-"), when(t.GetExpires(), "never"), tokenState(t, now), t.GetNote(),
						when(t.GetLastUsed(), "-"), tokenScopes(t), strings.Join(t.GetNetworks(), " "), limitsText(t.GetLimits()),
					}[:len(columns)])
					values = append(values, newTokenJSON(t, now))
				}
				return page.GetNextPageToken(), out.page(cells, values)
			})
		})
	}
	return cmd
}

func newTokenShow() *cobra.Command {
	var where apiFlags
	var app, id string
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show a token's record, without its secret",
		Example: `  gateway token show --app acme --id k7wq2mz4ntd3x5pb -c gateway.yaml`,
		Args:    noArgs,
	}
	where.add(cmd)
	format := outputFlag(cmd)
	cmd.Flags().StringVar(&app, "app", "", "the token's `APP` (needed)")
	cmd.Flags().StringVar(&id, "id", "", "the token's `ID`, as list shows it (needed)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needRef(app, id); err != nil {
			return err
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			ctx, cancel := limited(ctx)
			defer cancel()
			t, err := a.tokens.GetToken(ctx, &adminpb.GetTokenRequest{App: app, Id: id})
			if err != nil {
				return err
			}
			return printToken(cmd, *format, t)
		})
	}
	return cmd
}

func newTokenSet() *cobra.Command {
	var where apiFlags
	var f tokenFlags
	var id string
	var version int64
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change a token's record",
		Long: `Change what is given of a token's record, and nothing else. Every gateway knows
within a second. With --version the change is made only if nobody else has made
one since.`,
		Example: `  gateway token set --app acme --id k7wq2mz4ntd3x5pb --network 10.0.0.0/8 --rate 10/s -c gateway.yaml
  gateway token set --app acme --id k7wq2mz4ntd3x5pb --expires 2027-01-01 --admin 127.0.0.1:9091`,
		Args: noArgs,
	}
	where.add(cmd)
	format := outputFlag(cmd)
	f.add(cmd)
	cmd.Flags().StringVar(&id, "id", "", "the token's `ID`, as list shows it (needed)")
	cmd.Flags().Int64Var(&version, "version", 0, "the `VERSION` that show has shown")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needRef(f.app, id); err != nil {
			return err
		}
		end, err := f.end(cmd, time.Now())
		if err != nil {
			return err
		}
		limits, limitPaths, err := f.limits.limits(cmd)
		if err != nil {
			return err
		}
		paths := append(given(cmd, "note", "scope", "network"), limitPaths...)
		if cmd.Flags().Changed("ttl") || f.expires != "" {
			paths = append(paths, "expires")
		}
		if len(paths) == 0 {
			return usagef("say what to change: --note, --expires, --scope, --network, --rate, …")
		}
		record := &adminpb.Token{
			App: f.app, Id: id, Note: f.note, Expires: end, Scopes: listed(f.scopes), Networks: listed(f.networks), Limits: limits,
			Version: version,
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			ctx, cancel := limited(ctx)
			defer cancel()
			t, err := a.tokens.UpdateToken(ctx, &adminpb.UpdateTokenRequest{Token: record, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
			if err != nil {
				return err
			}
			return printToken(cmd, *format, t)
		})
	}
	return cmd
}
