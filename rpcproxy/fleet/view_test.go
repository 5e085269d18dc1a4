package fleet

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestView(t *testing.T) {
	t.Parallel()
	d := newField(t, 3, func(b *config.Backend) { b.Balancer.Subset = config.Subset{Size: 4, ID: "x"} })
	list := []Info{
		{Address: "a:1", Metadata: map[string]string{"zone": "east", "weight": "3"}}, {Address: "b:1"}, {Address: "b:1"}, {Address: "c:1"},
		{Address: "new:1"}, {Address: "other:1", Metadata: map[string]string{"zone": "west"}},
	}
	d.endpoints = d.Update(list)
	d.set = d.NewSet(d.endpoints)
	byAddress := func() map[string]EndpointView {
		views := map[string]EndpointView{}
		for _, v := range d.View() {
			views[v.Address] = v
		}
		return views
	}
	if n := len(d.View()); n != 5 {
		t.Fatalf("%d endpoints are shown", n)
	}
	states := map[State]int{}
	for _, v := range byAddress() {
		states[v.State]++
		if joined := v.Address == "new:1" || v.Address == "other:1"; v.State == StateSlowStart && !joined {
			t.Errorf("%s is new", v.Address)
		}
	}
	if states[StateUnused] != 1 {
		t.Errorf("the states are %v", states)
	}
	counted, panicking := d.Count()
	for _, state := range States() {
		if counted[state] != states[state] {
			t.Errorf("%d endpoints are counted as %s, %d are shown", counted[state], state, states[state])
		}
	}
	if panicking {
		t.Error("panics with all well")
	}
	if a := byAddress()["a:1"]; a.Zone != "east" || a.Weight != 3 || a.Metadata["weight"] != "3" || a.Health != "unknown" {
		t.Errorf("a is %+v", a)
	}

	d.pass(time.Minute)
	d.call(0, 5, Failure)
	d.took(1, 10, 20*time.Millisecond)
	d.endpoints[1].SetHealth(NotServing)
	d.beginAt(1)
	first, second := byAddress()[d.endpoints[0].address], byAddress()[d.endpoints[1].address]
	if first.State != StateEjected || first.Reason != "consecutive_failures: 5 failures in a row" || first.Ejections != 1 ||
		first.SuccessShare > 0.9 || !about(first.NextProbe, 5*time.Second) || !about(first.EjectedAt, 0) {
		t.Errorf("the ejected endpoint is %+v", first)
	}
	if second.State != StateUnhealthy || second.Health != "not_serving" || second.InFlight != 1 || second.LatencyMillis < 19 || second.LatencyMillis > 21 {
		t.Errorf("the unhealthy endpoint is %+v", second)
	}
	text, err := json.Marshal(first)
	if err != nil || !strings.Contains(string(text), `"state":"ejected","reason":"consecutive_failures: 5 failures in a row","ejected_at":"`) {
		t.Errorf("as JSON it is %s, %v", text, err)
	}
}

// about tells whether an instant is that far from now.
func about(at *time.Time, from time.Duration) bool {
	return at != nil && time.Until(at.Add(-from)).Abs() < time.Second
}
