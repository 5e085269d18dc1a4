package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// starting is three endpoints that are well known, and one that joins them now.
func starting(t *testing.T, policy string) *field {
	t.Helper()
	d := newField(t, 0, func(b *config.Backend) {
		b.Balancer.Policy = policy
		b.Balancer.SlowStart = 10 * time.Second
	})
	d.use(3)
	d.pass(time.Minute)
	d.use(4)
	return d
}

func TestSlowStart(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"round_robin", "weighted_round_robin", "p2c_ewma", "least_request"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			d := starting(t, policy)
			if policy == "p2c_ewma" { // so that nothing is forced
				d.shares(100, whichever, nil)
			}
			tolerance := 0.02
			for _, step := range []struct {
				after time.Duration
				part  float64 // of its share
			}{{0, 0.1}, {2 * time.Second, 0.2}, {5 * time.Second, 0.7}, {3 * time.Second, 1}, {time.Hour, 1}} {
				if step.after == time.Hour && policy == "p2c_ewma" {
					break // after a silence all are forced
				}
				d.pass(step.after)
				// Of each four calls that the four would get, it leaves some to the others.
				want := map[string]float64{"d": step.part / (3 + step.part)}
				if policy == "p2c_ewma" || policy == "least_request" {
					// Of the pairs drawn, those that it is in and wins, which is half of them.
					want["d"] = step.part / 4
					tolerance = 0.05
				}
				got := d.shares(6000, whichever, nil)
				wantShares(t, fmt.Sprintf("after %v more", step.after), map[string]float64{"d": got["d"]}, tolerance, want)
			}
		})
	}
}

func TestSlowStartIsForWhoJoinsOthers(t *testing.T) {
	t.Parallel()
	d := newField(t, 3, func(b *config.Backend) { b.Balancer.SlowStart = 10 * time.Second })
	third := map[string]float64{"a": 1. / 3, "b": 1. / 3, "c": 1. / 3}
	wantShares(t, "the first list", d.shares(3000, whichever, nil), 0.001, third)

	d.pass(time.Minute)
	d.tell("x", "y", "z")
	wantShares(t, "all are new", d.shares(3000, whichever, nil), 0.001, map[string]float64{"x": 1. / 3, "y": 1. / 3, "z": 1. / 3})

	d.pass(time.Minute)
	d.tell()
	d.tell("a", "b", "c")
	wantShares(t, "after an empty list", d.shares(3000, whichever, nil), 0.001, third)

	// One that was unhealthy or ejected is not new.
	d.endpoints[0].SetHealth(NotServing)
	d.pass(time.Second)
	d.endpoints[0].SetHealth(Serving)
	wantShares(t, "after a sickness", d.shares(3000, whichever, nil), 0.001, third)
}

// Where all start slowly, as in the middle of a rolling replacement, all calls
// are still served.
func TestAllStartSlowly(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"round_robin", "weighted_round_robin", "p2c_ewma", "least_request", "ring_hash"} {
		d := newField(t, 0, func(b *config.Backend) {
			b.Balancer.Policy = policy
			b.Balancer.SlowStart = 10 * time.Second
		})
		d.tell("a")
		d.tell("a", "b")
		d.tell("b", "c")
		got := d.shares(4000, whichever, nil)
		if got["b"] < 0.3 || got["c"] < 0.3 {
			t.Errorf("%s: shares %v", policy, got)
		}
	}
}

// An endpoint that comes into this gateway's subset was there before.
func TestSlowStartIsNotForSubsets(t *testing.T) {
	t.Parallel()
	d := newField(t, 0, func(b *config.Backend) { b.Balancer.Subset = config.Subset{Size: 3, ID: "g"} })
	d.tell("a", "b", "c", "d", "e", "f")
	d.pass(time.Minute)
	gone := d.endpoints[0].address[:1]
	d.tell(slices.DeleteFunc([]string{"a", "b", "c", "d", "e", "f"}, func(s string) bool { return s == gone })...)
	for _, e := range d.endpoints {
		if e.start.end() > d.now() {
			t.Errorf("%s starts slowly", e.Address())
		}
	}
}
