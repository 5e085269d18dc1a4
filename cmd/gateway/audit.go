package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

func newAudit() *cobra.Command {
	var where apiFlags
	var app string
	var most int
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print what operators did of late, the latest first",
		Long: `Print what operators did of late, at any gateway and by the command line, the
latest first. Redis keeps about 10,000 entries; the gateways' audit logs have all,
and those who were not let in.`,
		Example: `  gateway audit -c gateway.yaml
  gateway audit --app acme --limit 1000 --output ndjson --admin 127.0.0.1:9091`,
		Args: noArgs,
	}
	where.add(cmd)
	format := listFlag(cmd)
	cmd.Flags().StringVar(&app, "app", "", "only what was done to `APP`")
	cmd.Flags().IntVar(&most, "limit", 100, "how many entries to read; 0: all that are there")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if most < 0 {
			return usagef("--limit must not be negative")
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			out := newRows(cmd.OutOrStdout(), format, "TIME", "OPERATOR", "FROM", "METHOD", "APP", "TOKEN", "FIELDS", "RESULT", "REASON")
			left := most
			return pages(ctx, out, func(ctx context.Context, token string) (string, error) {
				size := listPage
				if most > 0 {
					size = min(size, left)
				}
				page, err := a.audit.ListAudit(ctx, &adminpb.ListAuditRequest{PageSize: int32(size), PageToken: token})
				if err != nil {
					return "", err
				}
				next := page.GetNextPageToken()
				if left -= len(page.GetEntries()); most > 0 && left <= 0 {
					next = ""
				}
				return next, printEntries(out, page.GetEntries(), app)
			})
		})
	}
	return cmd
}

// entryJSON is an entry as the audit log has it.
type entryJSON struct {
	Time     time.Time `json:"time"`
	Operator string    `json:"operator,omitempty"`
	From     string    `json:"from,omitempty"`
	Method   string    `json:"method"`
	App      string    `json:"app,omitempty"`
	TokenID  string    `json:"token_id,omitempty"`
	Fields   []string  `json:"fields,omitempty"`
	Result   string    `json:"result"`
	Reason   string    `json:"reason,omitempty"`
}

func printEntries(out *rows, entries []*adminpb.AuditEntry, app string) error {
	var cells [][]string
	var values []any
	for _, e := range entries {
		if app != "" && e.GetApp() != app {
			continue
		}
		cells = append(cells, []string{
			when(e.GetTime(), "-"), e.GetOperator(), e.GetFrom(), strings.TrimPrefix(e.GetMethod(), "rpcgate.admin.v1."),
			e.GetApp(), e.GetTokenId(), strings.Join(e.GetFields(), ","), e.GetResult(), e.GetReason(),
		})
		values = append(values, entryJSON{
			e.GetTime().AsTime(), e.GetOperator(), e.GetFrom(), e.GetMethod(), e.GetApp(), e.GetTokenId(), e.GetFields(), e.GetResult(), e.GetReason(),
		})
	}
	if len(cells) == 0 {
		return nil
	}
	return out.page(cells, values)
}
