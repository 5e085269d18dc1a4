package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

func TestIdentityFaults(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprint("x-", i))
	}
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"unknown identity":      {"    identity: [app, token]\n", []string{`6:21: backends[0].identity[1]: "token" is none of app, token_id, scopes`}},
		"identity twice":        {"    identity: [app, app]\n", []string{"6:21: backends[0].identity[1]: \"app\" stands in the list already"}},
		"reserved context":      {"context_headers: [X-Tenant, X-Rpcgate-App, Authorization]\n", []string{"6:29: context_headers[1]: \"X-Rpcgate-App\" is not for rules", "6:44: context_headers[2]"}},
		"context twice":         {"context_headers: [X-Tenant, x-tenant]\n", []string{"6:29: context_headers[1]: \"x-tenant\" stands in the list already"}},
		"context with a star":   {"context_headers: [X-*]\n", []string{"has a *"}},
		"too many of them":      {"context_headers: [" + strings.Join(many, ", ") + "]\n", []string{"context_headers: has 33 names; there may be 32"}},
		"a name of many words":  {"auth: {node: 'a b'}\n", []string{"6:14: auth.node: \"a b\" has a character other"}},
		"a name without an end": {"auth: {node: " + strings.Repeat("a", 65) + "}\n", []string{"6:14: auth.node: \"aaaa"}},
		"no name of a header":   {"context_headers: ['a b']\n", []string{"is not the name of a header"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkFaults(t, faultsOf(t, minimal+test.text), test.want)
		})
	}
}

func TestIdentityIsWhatTheFileSays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "app,token_id,scopes", "    identity: []\n": "", "    identity: [token_id]\ncontext_headers: [baggage, X-Session-Bin]\n": "token_id",
	} {
		cfg, err := config.Parse("gateway.yaml", []byte(minimal+text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(cfg.Backends[0].Identity, ","); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}
