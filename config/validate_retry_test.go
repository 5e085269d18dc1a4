package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestRetryFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"codes":             {"    retry: {codes: [UNAVAILABLE, ABORTED, UNAVAILABLE]}\n", []string{"6:43: backends[0].retry.codes[2]: UNAVAILABLE stands in the list already"}},
		"a code never":      {"    retry: {codes: [INVALID_ARGUMENT]}\n", []string{`backends[0].retry.codes[0]: "INVALID_ARGUMENT" is none of`}},
		"backoff":           {"    retry: {backoff: 2s}\n", []string{"backends[0].retry.max_backoff: is shorter than backoff, 2s"}},
		"too many attempts": {"    retry: {max_attempts: 11}\n", []string{"is too large: the most is 10"}},
		"no attempt":        {"    retry: {max_attempts: 0}\n", []string{"is too small: the least is 1"}},
		"replay":            {"    retry: {replay_size: 17MiB}\n", []string{"is too large"}},
		"budget":            {"    retry: {budget: {ratio: 1.5, min_per_second: -1}}\n", []string{"budget.ratio: is too large", "budget.min_per_second: is too small"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkFaults(t, faultsOf(t, minimal+test.text), test.want)
		})
	}
}

func TestRetryWarnings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text, want string
	}{
		"attempt timeout":       {"    retry: {attempt_timeout: 2s}\n", "retry.attempt_timeout: does nothing but for routes"},
		"a method has longer":   {"    method_timeouts: {shop.Shop/Get: 3s}\n    retry: {attempt_timeout: 2s}\n", ""},
		"a method has no limit": {"    method_timeouts: {shop.Shop/Get: 0s}\n    retry: {attempt_timeout: 2s}\n", ""},
		"hedge, one attempt":    {"    retry: {max_attempts: 1, hedge: {enabled: true}}\n", "retry.hedge.enabled: does nothing: max_attempts is 1"},
		"hedge, no budget":      {"    retry: {budget: {ratio: 0, min_per_second: 0}, hedge: {enabled: true}}\n", "retry.hedge.enabled: does nothing: the budget"},
		"delay alone":           {"    retry: {hedge: {delay: 1s}}\n", "retry.hedge.delay: does nothing"},
		"all well":              {"    retry: {attempt_timeout: 1s, hedge: {enabled: true, delay: 1s}}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse("gateway.yaml", []byte(minimal+test.text), environment())
			if err != nil {
				t.Fatal(err)
			}
			warnings := c.Warnings(time.Now())
			switch {
			case test.want == "" && len(warnings) == 0:
			case len(warnings) != 1 || test.want == "" || !strings.Contains(warnings[0].Error(), test.want):
				t.Errorf("%v, want %q", warnings, test.want)
			}
		})
	}
}
