package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/config"
)

func newToken() *cobra.Command {
	return group(&cobra.Command{
		Use:   "token",
		Short: "Issue, list, change, rotate, revoke and verify tokens",
		Long: `Issue, list, change, rotate, revoke and verify the tokens that apps call the
gateway with.

They are in Redis, named by --redis, or by the redis section of the configuration
file (-c), which also has its password, TLS, and the prefix of the keys; or they
are asked for at a gateway's admin port (--admin), on behalf of an operator.`,
		Example: `  gateway token issue --app acme --redis 127.0.0.1:6379
  gateway token list -c gateway.yaml`,
	}, newTokenIssue(), newTokenList(), newTokenShow(), newTokenSet(), newTokenRotate(), newTokenRevoke(),
		newTokenVerify(), newTokenExport(), newTokenImport())
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
		return config.Redis{}, config.Auth{}, usagef("say where Redis is: --redis HOST:PORT, or -c FILE; or name a gateway: --admin HOST:PORT")
	}
}

// tokenJSON is a token as scripts get it.
type tokenJSON struct {
	App        string      `json:"app"`
	ID         string      `json:"id"`
	Note       string      `json:"note,omitempty"`
	Created    *time.Time  `json:"created,omitempty"`
	Expires    *time.Time  `json:"expires,omitempty"`
	Revoked    *time.Time  `json:"revoked,omitempty"`
	ReplacedBy string      `json:"replaced_by,omitempty"`
	Scopes     []string    `json:"scopes,omitempty"`
	Networks   []string    `json:"networks,omitempty"`
	Limits     *limitsJSON `json:"limits,omitempty"`
	LastUsed   *time.Time  `json:"last_used,omitempty"`
	Version    int64       `json:"version,omitempty"`
	State      string      `json:"state"`
}

func newTokenJSON(t *adminpb.Token, now time.Time) tokenJSON {
	return tokenJSON{
		App: t.GetApp(), ID: t.GetId(), Note: t.GetNote(), Created: timeOf(t.GetCreated()), Expires: timeOf(t.GetExpires()),
		Revoked: timeOf(t.GetRevoked()), ReplacedBy: t.GetReplacedBy(), Scopes: t.GetScopes(), Networks: t.GetNetworks(),
		Limits: newLimitsJSON(t.GetLimits()), LastUsed: timeOf(t.GetLastUsed()), Version: t.GetVersion(), State: tokenState(t, now),
	}
}

// tokenState is what the token is good for, in a word or two.
func tokenState(t *adminpb.Token, now time.Time) string {
	switch {
	case t.GetRevoked() != nil:
		return "revoked"
	case t.GetExpires() != nil && !t.GetExpires().AsTime().After(now):
		return "expired"
	case t.GetReplacedBy() != "":
		return "replaced by " + t.GetReplacedBy()
	default:
		return "valid"
	}
}

// printToken prints one token: a line for each field, or JSON.
func printToken(cmd *cobra.Command, format output, t *adminpb.Token) error {
	now := time.Now()
	if format == outputJSON {
		return printJSON(cmd.OutOrStdout(), newTokenJSON(t, now))
	}
	return printFields(cmd.OutOrStdout(), [][2]string{
		{"app", t.GetApp()},
		{"id", t.GetId()},
		{"state", tokenState(t, now)},
		{"note", t.GetNote()},
		{"scopes", tokenScopes(t)},
		{"networks", strings.Join(t.GetNetworks(), ", ")},
		{"limits", limitsText(t.GetLimits())},
		{"created", when(t.GetCreated(), "")},
		{"expires", when(t.GetExpires(), "never")},
		{"revoked", when(t.GetRevoked(), "")},
		{"last used", when(t.GetLastUsed(), "")},
	})
}

// tokenScopes are what may be called with a token.
func tokenScopes(t *adminpb.Token) string {
	if len(t.GetScopes()) == 0 {
		return "the app's"
	}
	return strings.Join(t.GetScopes(), ", ")
}

// printIssued prints a token that was just made: to stdout nothing but the
// token, so that `TOKEN=$(gateway token issue …)` works, and to stderr what a
// person wants to know of it, and the remark.
func printIssued(cmd *cobra.Command, format output, issued *adminpb.IssuedToken, remark string) error {
	t := issued.GetToken()
	if format == outputJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			Token string `json:"token"`
			tokenJSON
			NewApp bool `json:"new_app,omitempty"`
		}{issued.GetSecret(), newTokenJSON(t, time.Now()), issued.GetNewApp()})
	}
	name := "Token"
	if t.GetId() != "" { // one in go-zero's layout has none
		name += " " + t.GetId()
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s of app %s; expires: %s. It is shown this once: keep it.%s\n",
		name, t.GetApp(), when(t.GetExpires(), "never"), remark)
	_, err := fmt.Fprintln(cmd.OutOrStdout(), issued.GetSecret())
	return err
}

// instant is a time for people, or none where there is no such time.
func instant(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	return t.UTC().Format(time.RFC3339)
}
