package integration_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

// A token's whole life by the command line, each step as its caller sees it at
// a running gateway.
func TestTokenCommands(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	file := writeConfig(t, fmt.Sprintf("redis: {addresses: [%q]}\n", r.redis.Addr)+echoConfig(b, ""))
	token := func(args ...string) map[string]any {
		t.Helper()
		stdout, stderr, exit := gatewaytest.Run(t, append(append([]string{"token"}, args...), "--redis", r.redis.Addr, "--output", "json")...)
		if exit != 0 {
			t.Fatalf("token %s: exit %d: %s", args[0], exit, stderr)
		}
		var answer map[string]any
		if err := json.Unmarshal([]byte(stdout), &answer); err != nil && args[0] != "list" && args[0] != "revoke" {
			t.Fatalf("token %s: %v: %s", args[0], err, stdout)
		}
		return answer
	}
	text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
	passes := func(secret string) answer {
		return r.do(t, r.http1, "GET", "/v1/echo", "", "X-App", "cli", "X-Token", secret)
	}

	// As a person sees it: the token is shown once, and never again.
	stdout, stderr, exit := gatewaytest.Run(t, "token", "issue", "--app", "cli", "-c", file)
	if exit != 0 || strings.Count(stdout+stderr, "rpg_") != 1 {
		t.Fatalf("issue: exit %d: %s%s", exit, stdout, stderr)
	}
	shown := "rpg_" + between(t, stdout+"\n", "rpg_", "\n")
	passes(strings.TrimSpace(shown)).ok(t, "")

	first := token("issue", "--app", "cli", "--note", "first")
	passes(text(first, "token")).ok(t, "")
	second := token("rotate", "--app", "cli", "--id", text(first, "id"), "--grace", "1h")
	passes(text(first, "token")).ok(t, "")
	passes(text(second, "token")).ok(t, "")
	third := token("rotate", "--app", "cli", "--id", text(second, "id"), "--grace", "0s")
	passes(text(third, "token")).ok(t, "")
	refused := func(secret string) {
		t.Helper()
		gatewaytest.Eventually(t, func() error {
			if a := passes(secret); a.Status != 401 {
				return fmt.Errorf("%d: %s", a.Status, a.Body)
			}
			return nil
		})
		passes(secret).failed(t, 401, codes.Unauthenticated, "TOKEN_REVOKED")
	}
	refused(text(second, "token"))
	token("revoke", "--app", "cli", "--id", text(third, "id"))
	refused(text(third, "token"))
	passes(text(first, "token")).ok(t, "")

	list, _, exit := gatewaytest.Run(t, "token", "list", "--app", "cli", "-c", file)
	for _, m := range []map[string]any{first, second, third} {
		secret := strings.Split(text(m, "token"), "_")[2]
		if exit != 0 || !strings.Contains(list, text(m, "id")) || strings.Contains(list, secret) {
			t.Errorf("list, exit %d:\n%s", exit, list)
		}
	}
	for _, args := range [][]string{
		{"revoke", "--app", "cli", "--id", "nosuchid"},
		{"rotate", "--app", "cli", "--id", text(third, "id")},
		{"issue", "--app", "not an app"},
	} {
		if _, stderr, exit := gatewaytest.Run(t, append(append([]string{"token"}, args...), "--redis", r.redis.Addr)...); exit == 0 || stderr == "" {
			t.Errorf("token %v: exit %d, %q", args, exit, stderr)
		}
	}
	_, stderr, exit = gatewaytest.Run(t, "token", "list", "--redis", gatewaytest.FreeAddress(t))
	if exit != 1 || !strings.Contains(stderr, "redis") && !strings.Contains(stderr, "refused") {
		t.Errorf("without a Redis: exit %d, %q", exit, stderr)
	}
}

// What is asked for in the wrong way is exit 2, and says how to ask.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"srve"}, {"serve", "--nothing"}, {"serve"}, {"serve", "x"}, {"token"}, {"token", "isue"}, {"token", "issue"},
		{"check"}, {"routes"}, {"demo", "x"}, {"token", "list", "--output", "xml"},
		{"backends", "--admin", "x"}, {"breaker"}, {"breaker", "open"}, {"breaker", "open", "--backend", "x"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			_, stderr, exit := gatewaytest.Run(t, args...)
			if exit != 2 || stderr == "" {
				t.Errorf("exit %d: %s", exit, stderr)
			}
		})
	}
	for _, args := range [][]string{
		{}, {"serve"}, {"demo"}, {"check"}, {"routes"}, {"token"}, {"token", "issue"}, {"token", "list"},
		{"token", "rotate"}, {"token", "revoke"}, {"version"}, {"health"},
		{"backends"}, {"breaker"}, {"breaker", "open"}, {"breaker", "close"}, {"breaker", "auto"},
	} {
		stdout, _, exit := gatewaytest.Run(t, append(args, "--help")...)
		if exit != 0 || !strings.Contains(stdout, "Example") {
			t.Errorf("%v --help: exit %d, and no example in:\n%s", args, exit, stdout)
		}
	}
	if _, stderr, exit := gatewaytest.Run(t, "serve", "-c", "/nowhere.yaml"); exit != 1 || !strings.Contains(stderr, "/nowhere.yaml") {
		t.Errorf("a config that is not there: exit %d: %s", exit, stderr)
	}
}
