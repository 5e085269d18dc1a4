package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

func newUsage() *cobra.Command {
	var where apiFlags
	var app, from, to string
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Print what an app used, by day and route",
		Long: `Print what an app used, by day and route: calls, those of them that failed
through the caller, the gateway and the backend, and the bytes of the messages in
and out. Days are UTC's. Gateways add what they counted every few seconds.`,
		Example: `  gateway usage --app acme -c gateway.yaml
  gateway usage --app acme --from 2026-11-01 --to 2026-11-30 --output csv --admin 127.0.0.1:9091`,
		Args: noArgs,
	}
	where.add(cmd)
	format := listFlag(cmd)
	cmd.Flags().StringVar(&app, "app", "", "the `APP` (needed)")
	cmd.Flags().StringVar(&from, "from", "", "the first `DAY`, like 2006-01-02; default: the first of this month")
	cmd.Flags().StringVar(&to, "to", "", "the last `DAY`; default: today")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needApp(app); err != nil {
			return err
		}
		for flag, day := range map[string]string{"from": from, "to": to} {
			if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
				return usagef("--%s: %q is no day like 2006-01-02", flag, day)
			}
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			ctx, cancel := limited(ctx)
			defer cancel()
			answer, err := a.usage.ListUsage(ctx, &adminpb.ListUsageRequest{App: app, From: from, To: to})
			if err != nil {
				return err
			}
			out := newRows(cmd.OutOrStdout(), format,
				"DAY", "APP", "ROUTE", "CALLS", "CALLER-FAILURES", "GATEWAY-FAILURES", "BACKEND-FAILURES", "BYTES-IN", "BYTES-OUT")
			cells := make([][]string, 0, len(answer.GetUsage()))
			values := make([]any, 0, len(answer.GetUsage()))
			for _, u := range answer.GetUsage() {
				cells = append(cells, []string{
					u.GetDay(), u.GetApp(), u.GetRoute(), count(u.GetCalls()), count(u.GetCallerFailures()), count(u.GetGatewayFailures()),
					count(u.GetBackendFailures()), count(u.GetBytesIn()), count(u.GetBytesOut()),
				})
				values = append(values, newUsageJSON(u))
			}
			if len(cells) > 0 {
				if err := out.page(cells, values); err != nil {
					return err
				}
			}
			return out.end()
		})
	}
	return cmd
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

// usageJSON is a day's use of a route as scripts get it.
type usageJSON struct {
	Day             string `json:"day"`
	App             string `json:"app"`
	Route           string `json:"route"`
	Calls           int64  `json:"calls"`
	CallerFailures  int64  `json:"caller_failures"`
	GatewayFailures int64  `json:"gateway_failures"`
	BackendFailures int64  `json:"backend_failures"`
	BytesIn         int64  `json:"bytes_in"`
	BytesOut        int64  `json:"bytes_out"`
}

func newUsageJSON(u *adminpb.Usage) usageJSON {
	return usageJSON{
		u.GetDay(), u.GetApp(), u.GetRoute(), u.GetCalls(), u.GetCallerFailures(), u.GetGatewayFailures(), u.GetBackendFailures(),
		u.GetBytesIn(), u.GetBytesOut(),
	}
}
