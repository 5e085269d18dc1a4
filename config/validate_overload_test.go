package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestOverloadFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"overload: {queue_delay: 999us}\n":                                "6:25: overload.queue_delay: is too short",
		"overload: {cpu: 95}\n":                                           "overload.cpu: is too large",
		"overload: {max_calls: -1}\n":                                     "overload.max_calls: is too small",
		"overload: {max_calls: 1e10}\n":                                   "overload.max_calls",
		"    concurrency: {max_calls: 5, min_calls: 6, adaptive: true}\n": "6:44: backends[0].concurrency.min_calls: is more than max_calls, 5",
		"    concurrency: {min_calls: 0}\n":                               "concurrency.min_calls: is too small",
		"routes: [{method: a.B/C, priority: urgent}]\n":                   `routes[0].priority: "urgent" is none of low, normal, high, critical`,
		"    concurrency: {max_cals: 5}\n":                                `unknown key; did you mean "max_calls"?`,
	} {
		checkFaults(t, faultsOf(t, minimal+text), []string{want})
	}
}

func TestOverloadWarnings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "",
		"overload: {max_calls: 0}\n":            "",
		"overload: {cpu: 0, queue_delay: 0s}\n": "",
		"    concurrency: {max_calls: 5}\n":     "",
		"    concurrency: {max_calls: 0, min_calls: 20, adaptive: true}\n": "",
		"overload: {cpu: 0}\n":                                "overload.cpu: is not looked at",
		"overload: {queue_delay: 0s}\n":                       "overload.queue_delay: is not looked at",
		"overload: {cpu: 0, queue_delay: 0s, max_calls: 0}\n": "overload: nothing is ever shed",
		"    concurrency: {min_calls: 20}\n":                  "backends[0].concurrency.min_calls: does nothing",
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
