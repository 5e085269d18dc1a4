package config_test

import "testing"

func TestUsageAndMetricsFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"usage: {interval: 99ms}\n":               "1:19: usage.interval: is too short",
		"usage: {interval: 2m}\n":                 "usage.interval: is too large",
		"usage: {keep: 23h}\n":                    "usage.keep: is less than a day",
		"metrics: {apps: [other]}\n":              `metrics.apps[0]: "other" stands for all`,
		"metrics: {apps: [acme, \"a b\"]}\n":      "metrics.apps[1]: \"a b\" is no app id",
		"metrics: {apps: [acme, acme]}\n":         "metrics.apps[1]: \"acme\" stands in the list already",
		"metrics: {top_apps: 1001}\n":             "metrics.top_apps: is too large",
		"auth: {guessing: {per: 10ms}}\n":         "auth.guessing.per: is too small",
		"auth: {guessing: {per_address: -1}}\n":   "auth.guessing.per_address: is too small",
		"auth: {guessing: {per_app: 10000000}}\n": "auth.guessing.per_app: is too large",
	} {
		checkFaults(t, faultsOf(t, text+minimal), []string{want})
	}
	mustParse(t, "usage: {interval: 0s, keep: 0s}\n"+minimal)
}
