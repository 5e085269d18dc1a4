package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

// listPage is how many records a list is asked for at once.
const listPage = 1000

func newAppList() *cobra.Command {
	var where apiFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the apps",
		Long: `List the apps by their ids, as they are read: there may be many. What comes and
goes meanwhile may be missing; nothing comes twice.`,
		Example: `  gateway app list -c gateway.yaml
  gateway app list --redis 127.0.0.1:6379 --output ndjson`,
		Args: noArgs,
	}
	where.add(cmd)
	format := listFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			out := newRows(cmd.OutOrStdout(), format, "APP", "NAME", "STATUS", "SCOPES", "LIMITS", "PRIORITY", "WEIGHT", "CONTACT")
			return pages(ctx, out, func(ctx context.Context, token string) (string, error) {
				page, err := a.apps.ListApps(ctx, &adminpb.ListAppsRequest{PageSize: listPage, PageToken: token})
				if err != nil {
					return "", err
				}
				var cells [][]string
				var values []any
				for _, app := range page.GetApps() {
					cells = append(cells, []string{
						app.GetId(), app.GetName(), statusText(app), scopesText(app.GetScopes()), limitsText(app.GetLimits()),
						app.GetPriority(), weightText(app), app.GetContact(),
					})
					values = append(values, newAppJSON(app))
				}
				if len(cells) == 0 {
					return page.GetNextPageToken(), nil
				}
				return page.GetNextPageToken(), out.page(cells, values)
			})
		})
	}
	return cmd
}

// pages reads page after page, each with its own limit in time, to the end.
func pages(ctx context.Context, out *rows, read func(ctx context.Context, token string) (next string, err error)) error {
	token := ""
	for {
		next, err := func() (string, error) {
			ctx, cancel := limited(ctx)
			defer cancel()
			return read(ctx, token)
		}()
		if err != nil {
			return err
		}
		if next == "" {
			return out.end()
		}
		token = next
	}
}

func newAppShow() *cobra.Command {
	var where apiFlags
	var app string
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show an app's record",
		Example: `  gateway app show --app acme -c gateway.yaml`,
		Args:    noArgs,
	}
	cmd.Flags().StringVar(&app, "app", "", "the `APP`'s id (needed)")
	where.add(cmd)
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needApp(app); err != nil {
			return err
		}
		return runAppAction(cmd, &where, *format, func(ctx context.Context, a api) (*adminpb.App, error) {
			return a.apps.GetApp(ctx, &adminpb.GetAppRequest{App: app})
		})
	}
	return cmd
}
