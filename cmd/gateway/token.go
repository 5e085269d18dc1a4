package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// storeTimeout bounds one command's dealings with Redis.
const storeTimeout = 10 * time.Second

func newToken() *cobra.Command {
	return group(&cobra.Command{
		Use:   "token",
		Short: "Issue, list, rotate and revoke tokens",
		Long: `Issue, list, rotate and revoke the tokens in Redis that apps call the gateway with.

Redis is named by --redis, or by the redis section of the configuration file
(-c), which also has its password, TLS, and the prefix of the keys.`,
		Example: `  gateway token issue --app acme --redis 127.0.0.1:6379
  gateway token list -c gateway.yaml`,
	}, newTokenIssue(), newTokenList(), newTokenRotate(), newTokenRevoke())
}

// storeFlags say where the token store is.
type storeFlags struct {
	file  string
	redis []string
}

func (f *storeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "take the Redis settings from `FILE`")
	cmd.Flags().StringSliceVar(&f.redis, "redis", nil, "Redis' `ADDRESS`, host:port")
}

// settings returns the parts of the config that the store needs.
func (f *storeFlags) settings() (config.Redis, config.Auth, error) {
	switch {
	case f.file != "" && len(f.redis) > 0:
		return config.Redis{}, config.Auth{}, usagef("give -c or --redis, not both")
	case f.file != "":
		cfg, err := config.Load(f.file)
		if err != nil {
			return config.Redis{}, config.Auth{}, err
		}
		if len(cfg.Redis.Addresses) == 0 {
			return config.Redis{}, config.Auth{}, fmt.Errorf("%s names no Redis (redis.addresses)", f.file)
		}
		return cfg.Redis, cfg.Auth, nil
	case len(f.redis) > 0:
		for _, address := range f.redis {
			if err := needAddress("redis", address); err != nil {
				return config.Redis{}, config.Auth{}, err
			}
		}
		cfg := config.Defaults()
		cfg.Redis.Addresses = f.redis
		return cfg.Redis, cfg.Auth, nil
	default:
		return config.Redis{}, config.Auth{}, usagef("say where Redis is: --redis HOST:PORT, or -c FILE")
	}
}

// with opens the store, runs do, and closes it.
func (f *storeFlags) with(ctx context.Context, do func(context.Context, *tenant.Store) error) error {
	redis, settings, err := f.settings()
	if err != nil {
		return err
	}
	rdb, err := auth.Open(redis)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return do(ctx, tenant.NewStore(rdb, settings))
}

// printIssued prints a token that was just made: to stdout nothing but the
// token, so that `TOKEN=$(gateway token issue …)` works, and to stderr what a
// person wants to know of it, and the remark.
func printIssued(cmd *cobra.Command, format output, issued tenant.Issued, remark string) error {
	if format == outputJSON {
		return printJSON(cmd.OutOrStdout(), struct { // Issued itself prints without the secret
			Secret string `json:"token"`
			tenant.Token
		}{issued.Secret, issued.Token})
	}
	name := "Token"
	if issued.ID != "" { // one in go-zero's layout has none
		name += " " + issued.ID
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s of app %s; expires: %s. It is shown this once: keep it.%s\n",
		name, issued.App, instant(issued.Expires, "never"), remark)
	_, err := fmt.Fprintln(cmd.OutOrStdout(), issued.Secret)
	return err
}

// instant is a time for people, or none where there is no such time.
func instant(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	return t.UTC().Format(time.RFC3339)
}
