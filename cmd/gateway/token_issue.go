package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

// tokenFlags are what a token's record has.
type tokenFlags struct {
	app, note        string
	ttl              time.Duration
	expires          string
	scopes, networks []string
	limits           limitFlags
}

func (f *tokenFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.app, "app", "", "the `APP` that may call with it (needed)")
	flags.StringVar(&f.note, "note", "", "a `TEXT` to know it by")
	flags.DurationVar(&f.ttl, "ttl", 0, "how long it is valid from now on; 0: until revoked")
	flags.StringVar(&f.expires, "expires", "", "the `TIME` at which it ends, in place of --ttl: 2006-01-02 or 2006-01-02T15:04:05Z; never")
	flags.StringArrayVar(&f.scopes, "scope", nil, "a `PATTERN` of what may be called with it, of what the app may call; may be given again; '': all of that")
	flags.StringArrayVar(&f.networks, "network", nil, "a `BLOCK` of addresses that it may be used from, like 10.0.0.0/8; may be given again; '': any")
	f.limits.add(cmd)
}

// end is when the token ends; nil: never.
func (f *tokenFlags) end(cmd *cobra.Command, now time.Time) (*timestamppb.Timestamp, error) {
	if err := notNegative("ttl", f.ttl); err != nil {
		return nil, err
	}
	switch {
	case cmd.Flags().Changed("ttl") && f.expires != "":
		return nil, usagef("give --ttl or --expires, not both")
	case f.ttl > 0:
		return timestamppb.New(now.Add(f.ttl)), nil
	case f.expires == "" || f.expires == "never":
		return nil, nil //nolint:nilnil // see above
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, f.expires); err == nil {
			return timestamppb.New(t), nil
		}
	}
	return nil, usagef("--expires: %q is no time like 2006-01-02 or 2006-01-02T15:04:05Z", f.expires)
}

func newTokenIssue() *cobra.Command {
	var where apiFlags
	var f tokenFlags
	cmd := &cobra.Command{
		Use:   "issue",
		Short: "Make a token for an app and print it, this once",
		Long: `Make a token for an app and print it. Redis keeps only a hash of it, so it
cannot be shown again. An app may have several tokens. An app that has no record
gets one.

The token alone goes to standard output.`,
		Example: `  gateway token issue --app acme --redis 127.0.0.1:6379
  TOKEN=$(gateway token issue --app acme --note "billing job" --ttl 720h -c gateway.yaml)
  gateway token issue --app acme --scope 'GET /v1/**' --network 10.0.0.0/8 --rate 10/s --admin 127.0.0.1:9091`,
		Args: noArgs,
	}
	where.add(cmd)
	format := outputFlag(cmd)
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needApp(f.app); err != nil {
			return err
		}
		end, err := f.end(cmd, time.Now())
		if err != nil {
			return err
		}
		limits, _, err := f.limits.limits(cmd)
		if err != nil {
			return err
		}
		r := &adminpb.IssueTokenRequest{
			App: f.app, Note: f.note, Scopes: listed(f.scopes), Networks: listed(f.networks), Limits: limits,
		}
		if f.ttl > 0 {
			r.Ttl = durationpb.New(f.ttl)
		} else {
			r.Expires = end
		}
		return where.with(cmd.Context(), func(ctx context.Context, a api) error {
			ctx, cancel := limited(ctx)
			defer cancel()
			issued, err := a.tokens.IssueToken(ctx, r)
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
