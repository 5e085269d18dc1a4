package fleet

import (
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

func through(f *Filter) func() *Choice { return func() *Choice { return &Choice{Filter: f} } }

func TestFilter(t *testing.T) {
	t.Parallel()
	v2, v3 := config.Match{"version": "v2"}, config.Match{"version": "v3"}
	endpoints := []string{"a version=v1", "b version=v1", "c version=v2", "d version=v3 size=big", "e version=v3"}
	for name, tt := range map[string]struct {
		filter *Filter
		sick   []int
		want   map[string]float64
	}{
		"none":                     {nil, nil, map[string]float64{"a": 0.2, "b": 0.2, "c": 0.2, "d": 0.2, "e": 0.2}},
		"one value":                {NewFilter(v3), nil, map[string]float64{"d": 0.5, "e": 0.5}},
		"two values":               {NewFilter(config.Match{"version": "v3", "size": "big"}), nil, map[string]float64{"d": 1}},
		"those that none names":    {NewFilter(nil, v2, v3), nil, map[string]float64{"a": 0.5, "b": 0.5}},
		"less others":              {NewFilter(v3, config.Match{"size": "big"}), nil, map[string]float64{"e": 1}},
		"an empty match names all": {NewFilter(nil, nil), nil, map[string]float64{"a": 0.2, "b": 0.2, "c": 0.2, "d": 0.2, "e": 0.2}},
		"none matches":             {NewFilter(config.Match{"version": "v4"}, v2, v3), nil, map[string]float64{"a": 0.5, "b": 0.5}},
		"a key that none has":      {NewFilter(config.Match{"color": ""}, v3), nil, map[string]float64{"a": 1. / 3, "b": 1. / 3, "c": 1. / 3}},
		"those that match are out": {NewFilter(v2, v3), []int{2}, map[string]float64{"a": 0.5, "b": 0.5}},
		"one of them is out":       {NewFilter(v3), []int{3}, map[string]float64{"e": 1}},
		"all but others' are out":  {NewFilter(nil, v2, v3), []int{0, 1}, map[string]float64{"c": 1. / 3, "d": 1. / 3, "e": 1. / 3}},
	} {
		d := newField(t, 0, func(b *config.Backend) { b.Ejection.PanicThreshold = 0 })
		d.tell(endpoints...)
		for _, i := range tt.sick {
			d.endpoints[i].SetHealth(NotServing)
		}
		wantShares(t, name, d.shares(3000, through(tt.filter), nil), 0.001, tt.want)
	}
}

// The own zone's endpoints are counted among those that pass.
func TestFilterInZones(t *testing.T) {
	t.Parallel()
	d := inZone(t, "round_robin", 1, "a zone=x", "b zone=x", "c zone=x version=v2", "d zone=y version=v2", "e zone=x version=v2")
	v2 := NewFilter(config.Match{"version": "v2"})
	wantShares(t, "all well", d.shares(1000, through(v2), nil), 0.001, map[string]float64{"c": 0.5, "e": 0.5})
	d.endpoints[4].SetHealth(NotServing)
	wantShares(t, "one out", d.shares(4000, through(v2), nil), 0.03, map[string]float64{"c": 0.5, "d": 0.5})
}

// A retry of a filter's call stays with the filter.
func TestFilterOfARetry(t *testing.T) {
	t.Parallel()
	d := newField(t, 0, nil)
	d.tell("a version=v2", "b", "c")
	c := &Choice{Filter: NewFilter(config.Match{"version": "v2"}), Tried: d.endpoints[:1]}
	if d.set.Pick(c); c.Endpoint.Address() != "a:1" {
		t.Errorf("the second attempt goes to %s", c.Endpoint.Address())
	}
}

// A set follows its endpoints' metadata, and forgets filters when there are too
// many of them.
func TestFiltersOfASet(t *testing.T) {
	t.Parallel()
	d := newField(t, 0, nil)
	d.tell("a version=v1", "b version=v1")
	set, v2 := d.set, NewFilter(config.Match{"version": "v2"})
	wantShares(t, "before", d.shares(100, through(v2), nil), 0.001, map[string]float64{"a": 0.5, "b": 0.5})
	d.tell("a version=v1", "b version=v2")
	d.set = set
	wantShares(t, "after", d.shares(100, through(v2), nil), 0.001, map[string]float64{"b": 1})
	for range 10 * maxFilters {
		d.shares(1, through(NewFilter(config.Match{"version": "v2"})), nil)
		if n := len(*set.filtered.Load()); n > maxFilters {
			t.Fatalf("%d filters are kept", n)
		}
	}
	wantShares(t, "at last", d.shares(100, through(v2), nil), 0.001, map[string]float64{"b": 1})
}
