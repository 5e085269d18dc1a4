package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

func newAppCreate() *cobra.Command {
	var where apiFlags
	var f appFlags
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an app's record",
		Example: `  gateway app create --app acme --name "ACME Ltd" --contact ops@acme.example -c gateway.yaml
  gateway app create --app acme --scope 'shop.OrderService/*' --rate 100/s --daily 100000 --redis 127.0.0.1:6379`,
		Args: noArgs,
	}
	f.add(cmd)
	where.add(cmd)
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		record, _, err := f.record(cmd)
		if err != nil {
			return err
		}
		return runAppAction(cmd, &where, *format, func(ctx context.Context, a api) (*adminpb.App, error) {
			return a.apps.CreateApp(ctx, &adminpb.CreateAppRequest{App: record})
		})
	}
	return cmd
}

func newAppSet() *cobra.Command {
	var where apiFlags
	var f appFlags
	var version int64
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change an app's record",
		Long: `Change what is given of an app's record, and nothing else. Every gateway knows
within a second. With --version the change is made only if nobody else has made
one since.`,
		Example: `  gateway app set --app acme --rate 200/s -c gateway.yaml
  gateway app set --app acme --scope 'GET /v1/**' --scope 'shop.UserService/GetUser' --version 3 --redis 127.0.0.1:6379`,
		Args: noArgs,
	}
	f.add(cmd)
	cmd.Flags().Int64Var(&version, "version", 0, "the `VERSION` that show has shown")
	where.add(cmd)
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		record, paths, err := f.record(cmd)
		if err != nil {
			return err
		}
		if len(paths) == 0 {
			return usagef("say what to change: --name, --scope, --rate, …")
		}
		record.Version = version
		return runAppAction(cmd, &where, *format, func(ctx context.Context, a api) (*adminpb.App, error) {
			return a.apps.UpdateApp(ctx, &adminpb.UpdateAppRequest{App: record, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
		})
	}
	return cmd
}

// newAppState makes suspend and resume.
func newAppState(name, short, done string) *cobra.Command {
	var where apiFlags
	var app string
	cmd := &cobra.Command{
		Use: name, Short: short,
		Long:    short + ". Every gateway knows within a second.",
		Example: fmt.Sprintf("  gateway app %s --app acme -c gateway.yaml", name),
		Args:    noArgs,
	}
	cmd.Flags().StringVar(&app, "app", "", "the `APP`'s id (needed)")
	where.add(cmd)
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needApp(app); err != nil {
			return err
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			ctx, cancel := limited(ctx)
			defer cancel()
			var record *adminpb.App
			var err error
			if name == "suspend" {
				record, err = a.apps.SuspendApp(ctx, &adminpb.SuspendAppRequest{App: app})
			} else {
				record, err = a.apps.ResumeApp(ctx, &adminpb.ResumeAppRequest{App: app})
			}
			if err != nil {
				return err
			}
			if *format == outputJSON {
				return printJSON(cmd.OutOrStdout(), newAppJSON(record))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s app %s.\n", done, app)
			return err
		})
	}
	return cmd
}

func newAppDelete() *cobra.Command {
	var where apiFlags
	var app string
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "End an app and all its tokens",
		Long: `End an app: all its tokens are refused at once, then its records are removed.
At a terminal, --yes is needed.`,
		Example: `  gateway app delete --app acme --yes -c gateway.yaml`,
		Args:    noArgs,
	}
	cmd.Flags().StringVar(&app, "app", "", "the `APP`'s id (needed)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it, though it cannot be undone")
	where.add(cmd)
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needApp(app); err != nil {
			return err
		}
		if err := needYes(cmd, yes, "this ends app "+app+" and all its tokens"); err != nil {
			return err
		}
		// As long as it takes: an app may have many records.
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			if _, err := a.apps.DeleteApp(ctx, &adminpb.DeleteAppRequest{App: app}); err != nil {
				return err
			}
			if *format == outputJSON {
				return printJSON(cmd.OutOrStdout(), struct {
					App     string `json:"app"`
					Deleted bool   `json:"deleted"`
				}{app, true})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Deleted app %s and its tokens.\n", app)
			return err
		})
	}
	return cmd
}
