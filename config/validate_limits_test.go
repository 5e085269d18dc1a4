package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestLimitsFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"limits: {app: {burst: 5}}\n":                                        "limits.app.burst: does nothing without rate",
		"limits: {token: {per: 1m}}\n":                                       "limits.token.per: does nothing without rate",
		"limits: {app: {rate: 5, per: 1500ms}}\n":                            "limits.app.per: is not in whole seconds",
		"limits: {app: {rate: 5, per: 10ms}}\n":                              "limits.app.per: is too small",
		"limits: {app: {rate: 5, per: 25h}}\n":                               "limits.app.per: is too large",
		"limits: {app: {rate: -1}}\n":                                        "limits.app.rate: is too small",
		"limits: {app: {daily: -1}}\n":                                       "limits.app.daily: is too small",
		"limits: {token: {monthly: -5}}\n":                                   "limits.token.monthly: is too small",
		"limits: {app: {monthly: 1000000000001}}\n":                          "limits.app.monthly: is too large",
		"limits: {store_down: shut}\n":                                       `limits.store_down: "shut" is none of local, open, closed`,
		"limits: {gateways: -1}\n":                                           "limits.gateways: is too small",
		"limits: {apps: {rate: 5}}\n":                                        `unknown key; did you mean "app"?`,
		"routes: [{method: a.B/C, limits: {burst: 5}}]\n":                    "routes[0].limits.burst: does nothing without rate",
		"routes: [{method: a.B/C, limits: {rate: 5, per: 10s, brust: 5}}]\n": `unknown key; did you mean "burst"?`,
	} {
		checkFaults(t, faultsOf(t, minimal+text), []string{want})
	}
	checkFaults(t, faultsOf(t, "backends: [{name: b, endpoints: [\"127.0.0.1:1\"], auth: none, reflection: true}]\nroutes: [{method: a.B/C, limits: {rate: 5}}]\n"),
		[]string{"routes[0].limits.rate: is counted in Redis"})
}

func TestLimitsWarnings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"limits: {app: {rate: 5, per: 1m, burst: 20, daily: 100, monthly: 1000}}\n": "",
		"routes: [{method: a.B/C, limits: {rate: 5}}]\n":                            "",
		"limits: {app: {daily: 100, monthly: 10}}\n":                                "limits.app.daily: never holds: the whole month has fewer, 10",
		"limits: {token: {rate: 1, per: 1m, daily: 10000}}\n":                       "limits.token.daily: never holds: the rate lets through 1441 a day",
		"routes: [{method: a.B/C, limits: {daily: 100, monthly: 10}}]\n":            "routes[0].limits.daily: never holds",
	} {
		c, err := config.Parse("gateway.yaml", []byte(minimal+text), environment())
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		switch warnings := c.Warnings(time.Now()); {
		case want == "" && len(warnings) == 0:
		case want != "" && len(warnings) == 1 && strings.Contains(warnings[0].Error(), want):
		default:
			t.Errorf("%q: %v, want %q", text, warnings, want)
		}
	}
}
