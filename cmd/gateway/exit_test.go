package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
)

// runHere runs a command line in this process. The libraries' logs stay where
// they are: they are the whole process's, and tests run side by side.
func runHere(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	return run(ctx, process{stdout: stdout, stderr: stderr, takeLogs: func(*slog.Logger) {}}, args)
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args   string
		status int
		stderr string // what standard error must hold
	}{
		{"version", exitOK, ""},
		{"--help", exitOK, ""},
		{"serve --help", exitOK, ""},
		{"", exitUsage, "gateway: a command is missing"},
		{"frobnicate", exitUsage, `unknown command "frobnicate"`},
		{"serv", exitUsage, `did you mean "serve"?`},
		{"token", exitUsage, "gateway token: a command is missing"},
		{"token isue", exitUsage, `did you mean "issue"?`},
		{"serve", exitUsage, "-c FILE is missing"},
		{"serve --no-such-flag", exitUsage, "unknown flag: --no-such-flag"},
		{"serve -c x.yaml extra", exitUsage, `unexpected argument "extra"`},
		{"serve -c no-such-file.yaml", exitFailed, "no-such-file.yaml"},
		{"check", exitUsage, "-c FILE is missing"},
		{"check -c x.yaml --schema", exitUsage, "not both"},
		{"check -c no-such-file.yaml", exitFailed, "no-such-file.yaml"},
		{"routes", exitUsage, "-c FILE is missing"},
		{"routes -c x.yaml --timeout 0s", exitUsage, "--timeout must be positive"},
		{"routes -c no-such-file.yaml", exitFailed, "no-such-file.yaml"},
		{"version --output yaml", exitUsage, "must be text or json"},
		{"token issue --redis 127.0.0.1:1", exitUsage, "--app is missing"},
		{"token issue --app acme", exitUsage, "say where Redis is"},
		{"token issue --app acme --redis 127.0.0.1:1 -c x.yaml", exitUsage, "not both"},
		{"token issue --app acme --redis 127.0.0.1:1 --ttl -1s", exitUsage, "--ttl must not be negative"},
		{"token issue --app acme --redis 127.0.0.1:1 --ttl soon", exitUsage, "invalid"},
		{"token issue --app acme --redis 127.0.0.1:1", exitFailed, "127.0.0.1:1"},
		{"token list --redis 127.0.0.1:1", exitFailed, "127.0.0.1:1"},
		{"token rotate --app acme --redis 127.0.0.1:1", exitUsage, "--app and --id"},
		{"token rotate --app acme --id x --grace -1s --redis 127.0.0.1:1", exitUsage, "--grace must not be negative"},
		{"token revoke --app acme --redis 127.0.0.1:1", exitUsage, "--id ID, or --all"},
		{"token revoke --app acme --id x --all --redis 127.0.0.1:1", exitUsage, "give --id or --all, not both"},
		{"token revoke --app a.b --all --redis 127.0.0.1:1", exitUsage, "--app: the app id has"},
		{"token rotate --app a.b --id x --redis 127.0.0.1:1", exitUsage, "--app: the app id has"},
		{"token list --app a.b --redis 127.0.0.1:1", exitUsage, "--app: the app id has"},
		{"token issue --app a.b --redis 127.0.0.1:1", exitUsage, "--app: the app id has"},
		{"token issue --app acme --redis 127.0.0.1:1 --ttl 30d", exitUsage, "; write hours: 720h"},
		{"token list --redis localhost", exitUsage, `--redis: "localhost" is not host:port`},
		{"--version", exitOK, ""},
		{"token revoke --id x --redis 127.0.0.1:1", exitUsage, "--app is missing"},
		{"demo --http nonsense", exitUsage, `--http: "nonsense" is not host:port`},
		{"demo --admin localhost:", exitUsage, `--admin: "localhost:" is not host:port`},
		{"demo --env-file no/such/folder/demo.env --http 127.0.0.1:0 --grpc 127.0.0.1:0 --admin 127.0.0.1:0", exitFailed, "env file"},
		{"backends --admin 127.0.0.1:1", exitFailed, "asking the gateway"},
		{"backends --admin localhost", exitUsage, `--admin: "localhost" is not host:port`},
		{"app show acme --redis 127.0.0.1:1", exitUsage, `unexpected argument "acme"; an app is named by --app`},
		{"backends a b", exitUsage, `unexpected argument "b"`},
		{"backends -c x.yaml --admin 127.0.0.1:1", exitUsage, "not both"},
		{"backends -c no-such-file.yaml", exitFailed, "no-such-file.yaml"},
		{"backends --timeout 0s", exitUsage, "--timeout must be positive"},
		{"backends --output yaml", exitUsage, "must be text or json"},
		{"breaker", exitUsage, "gateway breaker: a command is missing"},
		{"breaker shut", exitUsage, `unknown command "shut"`},
		{"breaker opne", exitUsage, `did you mean "open"?`},
		{"breaker open --method a.B/C", exitUsage, "--backend is missing"},
		{"breaker close --backend b", exitUsage, "--method is missing"},
		{"breaker open --backend b --method a.B/C --for 0s", exitUsage, "--for must be positive"},
		{"breaker open --backend b --method a.B/C --for 1d", exitUsage, "; write hours: 24h"},
		{"breaker open --backend b --method a.B/C --app a.b", exitUsage, "--app: the app id has"},
		{"breaker open --backend b --method a.B/C --app=", exitUsage, "--app is missing"},
		{"breaker auto --backend b --method a.B/C --for 1s", exitUsage, "unknown flag: --for"},
		{"breaker auto --backend b --method a.B/C --admin 127.0.0.1:1", exitFailed, "asking the gateway"},
		{"app", exitUsage, "gateway app: a command is missing"},
		{"app crate", exitUsage, `did you mean "create"?`},
		{"app create --redis 127.0.0.1:1", exitUsage, "--app is missing"},
		{"app create --app acme", exitUsage, "or name a gateway: --admin HOST:PORT"},
		{"app create --app acme --rate lots --redis 127.0.0.1:1", exitUsage, `"lots" is no number of calls, like 100/s`},
		{"app create --app acme --rate 1/fortnight --redis 127.0.0.1:1", exitUsage, "is no time; write s, m, h"},
		{"app create --app acme --burst -1 --redis 127.0.0.1:1", exitUsage, "--burst must not be negative"},
		{"app create --app acme --max-body 2TiB --redis 127.0.0.1:1", exitUsage, "max-body"},
		{"app create --app acme --redis 127.0.0.1:1", exitFailed, "127.0.0.1:1"},
		{"app set --app acme --redis 127.0.0.1:1", exitUsage, "say what to change"},
		{"app list --redis 127.0.0.1:1 --output yaml", exitUsage, "must be text, json, ndjson or csv"},
		{"app list --admin localhost", exitUsage, `--admin: "localhost" is not host:port`},
		{"app list --admin 127.0.0.1:1", exitUsage, "say who asks: --operator-token-file"},
		{"app list --admin 127.0.0.1:1 --operator-token-file no-such-file", exitFailed, "no-such-file"},
		{"app list --admin 127.0.0.1:1 --redis 127.0.0.1:1", exitUsage, "not both"},
		{"app list --admin https://127.0.0.1:1 --cert-file x", exitUsage, "--cert-file and --key-file go together"},
		{"token show --app acme --redis 127.0.0.1:1", exitUsage, "--id is missing"},
		{"token set --app acme --id x --redis 127.0.0.1:1", exitUsage, "say what to change"},
		{"token set --app acme --id x --ttl 1h --expires never --redis 127.0.0.1:1", exitUsage, "give --ttl or --expires, not both"},
		{"token issue --app acme --expires soon --redis 127.0.0.1:1", exitUsage, `"soon" is no time like 2006-01-02`},
		{"token verify --app acme --expect maybe --redis 127.0.0.1:1", exitUsage, "--expect must be valid or refused"},
		{"token verify --app acme --id x --token-file y --redis 127.0.0.1:1", exitUsage, "give --id or --token-file, not both"},
		{"token import --key x --redis 127.0.0.1:1", exitUsage, "go with --from gozero"},
		{"token import --from gozero --admin 127.0.0.1:1", exitUsage, "--from gozero goes with neither --file nor --admin"},
		{"token import --from gozero --redis 127.0.0.1:1", exitUsage, "--key is missing"},
		{"usage --redis 127.0.0.1:1", exitUsage, "--app is missing"},
		{"usage --app acme --to tomorrow --redis 127.0.0.1:1", exitUsage, "--to:"},
		{"audit --limit -1 --redis 127.0.0.1:1", exitUsage, "--limit must not be negative"},
		{"operator", exitUsage, "gateway operator: a command is missing"},
		{"health --admin 127.0.0.1:1", exitFailed, "asking the gateway"},
		{"health --admin nonsense::", exitUsage, "is not host:port"},
		{"health --admin localhost", exitUsage, `--admin: "localhost" is not host:port`},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if got := runHere(t.Context(), &stdout, &stderr, strings.Fields(tc.args)...); got != tc.status {
				t.Errorf("exit status %d, want %d", got, tc.status)
			}
			if !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("standard error %q lacks %q", stderr.String(), tc.stderr)
			}
			if tc.status == exitOK && stderr.Len() > 0 {
				t.Errorf("standard error is not empty: %q", stderr.String())
			}
			if tc.status != exitOK && stdout.Len() > 0 {
				t.Errorf("standard output is not empty: %q", stdout.String())
			}
		})
	}
}

// Each command that a person may run has help with an example.
func TestHelpHasAnExample(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"", "serve", "demo", "check", "routes", "token", "token issue", "token list", "token rotate", "token revoke", "version", "health",
		"app", "app create", "app list", "app show", "app set", "app suspend", "app resume", "app delete",
		"token show", "token set", "token verify", "token export", "token import", "usage", "audit", "operator", "operator token",
		"backends", "breaker", "breaker open", "breaker close", "breaker auto",
	} {
		var stdout, stderr bytes.Buffer
		if got := runHere(t.Context(), &stdout, &stderr, append(strings.Fields(args), "--help")...); got != exitOK {
			t.Errorf("%q --help: exit status %d", args, got)
		}
		if !strings.Contains(stdout.String(), "Examples:\n  gateway ") && !strings.Contains(stdout.String(), "Examples:\n  TOKEN=$(gateway ") {
			t.Errorf("%q --help has no example:\n%s", args, &stdout)
		}
	}
}
