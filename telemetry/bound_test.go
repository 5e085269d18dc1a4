package telemetry

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A backend whose routes change without end gets a bounded number of series,
// and takes no room from another's.
func TestSeriesAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	calls := NewCalls(reg)
	for i := range 3 * maxRoutes {
		calls.Bind("churning", fmt.Sprintf("/v1/%d", i), "json")
	}
	calls.Bind("steady", "/v1/users", "json")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "rpcgate_calls_in_flight" {
			continue
		}
		if got := len(f.GetMetric()); got != maxRoutes+2 { // with "other", and the steady one's
			t.Errorf("%d series, want %d", got, maxRoutes+2)
		}
		return
	}
	t.Error("there are no series")
}
