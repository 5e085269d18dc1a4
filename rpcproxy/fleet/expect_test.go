package fleet

import (
	"slices"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

// A rule that no endpoint matches is told of when it comes to be so, and not again
// until one has matched.
func TestRulesThatNoEndpointMatches(t *testing.T) {
	t.Parallel()
	d := newField(t, 0, func(b *config.Backend) { b.Balancer.Subset.Size = 1 })
	v2, big := config.Match{"version": "v2"}, config.Match{"version": "v2", "size": "big"}
	told := 0
	want := func(when string, details ...string) {
		t.Helper()
		var got []string
		for _, e := range d.told(Unmatched)[told:] {
			got = append(got, e.Detail)
			if e.Endpoints != len(d.list) || e.Address != "" {
				t.Errorf("%s: told was %+v", when, e)
			}
		}
		if told += len(got); !slices.Equal(got, details) {
			t.Errorf("%s: told of %q", when, got)
		}
	}
	d.Expect([]config.Match{v2, big})
	want("before discovery")
	d.tell("a version=v1", "b version=v1")
	want("with the first list", "version=v2", "size=big version=v2")
	d.tell("a version=v1", "b version=v1", "c")
	want("with another list")
	d.Expect([]config.Match{big, {"version": "v1"}, {}, v2})
	want("with the same rules among others")
	d.tell("a version=v1", "b version=v2", "c") // of which one is used
	want("with one that matches")
	d.tell("a version=v1", "c")
	want("when it has left", "version=v2")
	d.tell()
	want("without endpoints")
	d.Expect(nil)
	d.tell("a")
	want("without rules")
	d.Expect([]config.Match{v2})
	want("with a new rule", "version=v2")
}
