package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestBalancerFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{hash_header: X-App}":                               `6:29: backends[0].balancer.hash_header: "X-App" is not a metadata key`,
		"{hash_header: authorization}":                       `"authorization" never reaches a backend`,
		"{policy: ring_hash, hash_header: a, hash_field: b}": "6:63: backends[0].balancer.hash_field: hash_header and hash_field are set",
		"{policy: ring_hash, hash_field: a..b}":              `"a..b" is not the name of a field`,
		"{zone: {name: x, spill_below: 1.5}}":                "zone.spill_below: is too large",
		"{slow_start: -1s}":                                  "balancer.slow_start: is too small",
		"{policy: ringhash}":                                 `did you mean "ring_hash"?`,
	} {
		checkFaults(t, faultsOf(t, minimal+"    balancer: "+text+"\n"), []string{want})
	}
}

func TestBalancerWarnings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"": nil,
		"    balancer: {policy: ring_hash, hash_field: user.id, subset: {size: 3}}\n":            nil,
		"    balancer: {zone: {name: x}}\n    canary: [{match: {a: b}}]\n":                       {"backends[0].balancer.zone: does nothing: endpoints from the configuration", "backends[0].canary: does nothing: endpoints"},
		"  - {name: b, reflection: true, target: 'dns:///b:1', balancer: {zone: {name: x}}}\n":   {"backends[1].balancer.zone: does nothing: endpoints"},
		"routes:\n  - {method: a.B/C, backend: shop, canary: [{match: {a: b}}]}\n":               {"routes[0].canary: does nothing: endpoints"},
		"routes:\n  - {method: a.B/C, canary: [{match: {a: b}, header: x}, {match: {a: c}}]}\n":  nil,
		"routes:\n  - {method: a.B/C, canary: [{match: {a: b}}, {match: {a: c}, percent: 5}]}\n": {"routes[0].canary[1]: does nothing: the canary before it takes all calls"},
		"    balancer: {hash_header: user}\n":                                                    {"backends[0].balancer.hash_header: does nothing: the policy is not ring_hash"},
		"    balancer: {hash_field: user}\n":                                                     {"backends[0].balancer.hash_field: does nothing"},
		"    balancer: {load_reports: per_call}\n":                                               {"backends[0].balancer.load_reports: does nothing: the policy is not weighted_round_robin"},
		"    balancer: {policy: weighted_round_robin, load_reports: out_of_band}\n":              nil,
		"    balancer: {policy: pick_first, zone: {name: x}}\n    canary: [{match: {a: b}}]\n":   {"backends[0].balancer.zone: does nothing: pick_first takes", "backends[0].canary: does nothing: pick_first takes"},
		"  - {name: b, reflection: true, target: 'xds:///b', balancer: {policy: round_robin, zone: {name: x}, subset: {size: 1}, slow_start: 1s}, canary: [{match: {a: b}}]}\n": {
			"backends[1].balancer.policy: does nothing: where xDS", "backends[1].balancer.zone", "backends[1].balancer.subset", "backends[1].canary",
		},
		"  - {name: b, reflection: true, target: 'xds:///b'}\n":                                                                      nil,
		"  - {name: b, reflection: true, target: 'xds:///b'}\nroutes:\n  - {method: a.B/C, backend: b, canary: [{match: {a: b}}]}\n": {"routes[0].canary: does nothing: where xDS"},
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
