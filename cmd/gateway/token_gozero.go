package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/rpcgate/rpcgate/admin"
	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// goZeroFlags say where zRPC keeps its tokens.
type goZeroFlags struct{ key, redis string }

func (f *goZeroFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.key, "key", "", "the `KEY` of zRPC's hash; default: auth.gozero.key of -c")
	cmd.Flags().StringVar(&f.redis, "from-redis", "", "the `ADDRESS` of the Redis that has it, where it is another one")
}

// run imports the tokens past the API: they are read in one Redis, and written
// in another.
func (f *goZeroFlags) run(cmd *cobra.Command, where *apiFlags, format output, dryRun bool) error {
	if f.redis != "" {
		if err := needAddress("from-redis", f.redis); err != nil {
			return err
		}
	}
	return where.local(cmd.Context(), func(ctx context.Context, s *admin.Service, _ grpc.ClientConnInterface, at config.Redis, settings config.Auth) error {
		key := f.key
		if key == "" && settings.GoZero != nil {
			key = settings.GoZero.Key
		}
		if key == "" {
			return usagef("--key is missing: where zRPC keeps its tokens")
		}
		settings.GoZero = nil // they go into rpcgate's own layout
		return f.copy(ctx, cmd, s, at, settings, key, format, dryRun)
	})
}

func (f *goZeroFlags) copy(
	ctx context.Context, cmd *cobra.Command, s *admin.Service, at config.Redis, settings config.Auth, key string, format output, dryRun bool,
) error {
	to, err := auth.Open(at)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	var from redis.UniversalClient = to
	if f.redis != "" {
		other := config.Defaults().Redis
		other.Addresses = []string{f.redis}
		opened, err := auth.Open(other)
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }()
		from = opened
	}
	o := tenant.GoZeroOptions{DryRun: dryRun, Report: func(app string, _ tenant.ImportResult, refused error) {
		if refused != nil {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "app %s: %s\n", printable(app), printable(refused.Error()))
		}
	}}
	sum, err := tenant.ImportGoZero(ctx, from, key, tenant.NewStore(to, settings), o)
	if !dryRun {
		s.Note(ctx, admin.Entry{Method: "token import --from gozero"}, err)
	}
	if err != nil {
		return err
	}
	if err := printImport(cmd, format, int64(sum.Created), int64(sum.Replaced), int64(sum.Kept), int64(sum.Refused), dryRun); err != nil {
		return err
	}
	if sum.Created+sum.Replaced+sum.Kept+sum.Refused == 0 {
		return fmt.Errorf("there are no tokens at the key %q", key)
	}
	if sum.Refused > 0 {
		return fmt.Errorf("%d tokens were not taken", sum.Refused)
	}
	return nil
}
