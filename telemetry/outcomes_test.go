package telemetry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	calls := NewCalls(reg)
	o := calls.BindOutcomes("shop", "/v1/users")
	calls.BindOutcomes("shop", "/v1/orders") // no series as long as there is nothing to count
	o.BusinessFailure()
	o.BusinessFailure()
	o.Fallback("static")
	wantSamples(t, scrape(t, reg, "rpcgate_business_failures_total", "rpcgate_fallbacks_total"),
		`rpcgate_business_failures_total{backend="shop",route="/v1/users"} 2`,
		`rpcgate_fallbacks_total{backend="shop",kind="static",route="/v1/users"} 1`,
	)
}
