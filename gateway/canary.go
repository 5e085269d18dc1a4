package gateway

import (
	"encoding/json"
	"math/rand/v2"
	"slices"

	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// canaries choose by which filter each call of a route goes out.
type canaries struct {
	list []canary
	rest *fleet.Filter // for calls that none takes
}

type canary struct {
	filter        *fleet.Filter
	header, value string  // empty: any call; any value
	share         float64 // of the calls, 0 to 1
}

// choose gives the filter of a call with the metadata; nil: it may go anywhere.
func (c *canaries) choose(md metadata.MD) *fleet.Filter {
	if c == nil {
		return nil
	}
	for i := range c.list {
		if rule := &c.list[i]; rule.wants(md) && rule.drawn() {
			return rule.filter
		}
	}
	return c.rest
}

func (c *canary) wants(md metadata.MD) bool {
	if c.header == "" {
		return true
	}
	values := md[c.header]
	return len(values) > 0 && (c.value == "" || slices.Contains(values, c.value))
}

func (c *canary) drawn() bool {
	return c.share >= 1 || c.share > 0 && rand.Float64() < c.share //nolint:gosec // a share of traffic, not a secret
}

// filters makes one filter for each distinct rule, also over snapshots, as
// endpoints are sorted by them anew for each.
type filters struct {
	made, before map[string]*fleet.Filter
}

func (f filters) canaries(rules []config.Canary) *canaries {
	if len(rules) == 0 {
		return nil
	}
	c := &canaries{list: make([]canary, len(rules))}
	all := make([]config.Match, len(rules))
	for i, rule := range rules {
		all[i] = rule.Match
		c.list[i] = canary{filter: f.filter(rule.Match), header: rule.Header, value: rule.Value, share: rule.Percent / 100}
	}
	c.rest = f.filter(nil, all...)
	return c
}

func (f filters) filter(match config.Match, not ...config.Match) *fleet.Filter {
	text, _ := json.Marshal(append([]config.Match{match}, not...)) // maps of text, in the order of their keys
	key := string(text)
	made, ok := f.made[key]
	if !ok {
		if made, ok = f.before[key]; !ok {
			made = fleet.NewFilter(match, not...)
		}
		f.made[key] = made
	}
	return made
}
