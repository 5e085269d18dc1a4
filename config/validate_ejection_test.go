package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestEjectionFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ejection: {base_time: 3m}":            "backends[0].ejection.max_time: is shorter than base_time, 3m0s",
		"ejection: {latency_factor: 0.9}":      "6:32: backends[0].ejection.latency_factor: must be above 1",
		"ejection: {latency_factor: -2}":       "latency_factor: is too small",
		"ejection: {max_share: 1.1}":           "max_share: is too large",
		"ejection: {panic_threshold: 30}":      "panic_threshold: is too large",
		"ejection: {min_endpoints: 1}":         "min_endpoints: is too small",
		"ejection: {interval: 1ms}":            "interval: is too small",
		"ejection: {base_time: 0s}":            "base_time: is too small",
		"ejection: {consecutive_failures: -1}": "consecutive_failures: is too small",
		"ejection: {success_deviations: .nan}": "success_deviations: \".nan\" is not a number",
		"health_check: {mode: on}":             "health_check.mode: ",
		"balancer: {subset: {size: -1}}":       "subset.size: is too small",
		"balancer: {subset: {number: web-3}}":  "subset.number: \"web-3\" is not a number from 0 up",
		"balancer: {subset: {number: '-1'}}":   "subset.number: \"-1\" is not a number",
	} {
		checkFaults(t, faultsOf(t, minimal+"    "+text+"\n"), []string{want})
	}
}

func TestEjectionWarnings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"    ejection: {base_time: 1s, latency_factor: 3}\n    health_check: {service: a.B}\n    balancer: {subset: {size: 9, id: x}}\n": nil,
		"    health_check: {mode: 'off', service: a.B}\n":                     {"health_check.service: does nothing: endpoints are not asked"},
		"    balancer: {subset: {id: x}}\n":                                   {"balancer.subset.id: does nothing: without subset.size"},
		"    balancer: {subset: {number: '3'}}\n":                             {"balancer.subset.number: does nothing: without subset.size"},
		"    balancer: {policy: pick_first}\n":                                nil,
		"    balancer: {policy: pick_first}\n    ejection: {base_time: 1s}\n": {"backends[0].ejection: does nothing: pick_first"},
		"  - {name: b, reflection: true, target: 'xds:///b', ejection: {interval: 1s}, health_check: {service: a.B}}\n": {
			"backends[1].ejection: does nothing: where xDS", "backends[1].health_check.service: does nothing: where xDS",
		},
	} {
		c, err := config.Parse("gateway.yaml", []byte(minimal+text), environment())
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		warnings := c.Warnings(time.Now())
		if len(warnings) != len(want) {
			t.Errorf("%q: %v, want %q", text, warnings, want)
			continue
		}
		for i, w := range warnings {
			if !strings.Contains(w.Error(), want[i]) {
				t.Errorf("%q: %v, want %q", text, w, want[i])
			}
		}
	}
}
