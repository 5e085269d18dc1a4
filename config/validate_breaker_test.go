package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestBreakerFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{scope: apps}":                                           `6:22: backends[0].breaker.scope: "apps" is none of method, app; did you mean "app"?`,
		"{adaptive: {k: 1}}":                                      "breaker.adaptive.k: must be above 1",
		"{adaptive: {window: 10ms}}":                              "breaker.adaptive.buckets: are too many",
		"{adaptive: {probe_interval: 0}}":                         "probe_interval",
		"{kind: threshold, threshold: {consecutive_failures: 0}}": "breaker.threshold: would never open",
		"{threshold: {failure_ratio: 1.5}}":                       "failure_ratio: is too large",
		"{threshold: {interval: 0s}}":                             "interval: is too small",
		"{threshold: {open_timeout: 0s}}":                         "open_timeout: is too small",
		"{threshold: {half_open_probes: 0}}":                      "half_open_probes: is too small",
		"{threshold: {min_calls: 0}}":                             "min_calls: is too small",
	} {
		checkFaults(t, faultsOf(t, minimal+"    breaker: "+text+"\n"), []string{want})
	}
}

func TestBreakerWarnings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{scope: app}": "",
		"{kind: threshold, threshold: {failure_ratio: 0.5}}": "",
		"{kind: off}":                       "",
		"{kind: off, scope: app}":           "backends[0].breaker.scope: does nothing: breakers are off",
		"{threshold: {failure_ratio: 0.5}}": "backends[0].breaker.threshold.failure_ratio: does nothing: the kind is not threshold",
	} {
		c, err := config.Parse("gateway.yaml", []byte(minimal+"    breaker: "+text+"\n"), environment())
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
