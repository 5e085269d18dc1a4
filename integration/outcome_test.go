package integration_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// A response that the route's outcome finds to be no success reaches its caller,
// and counts as a failure: in metrics and log, and in the breaker.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, breaker := range []bool{false, true} {
		t.Run(fmt.Sprint("breaker ", breaker), func(t *testing.T) {
			t.Parallel()
			b := testbackend.Start(t)
			r := newRig(t, echoConfig(b, "breaker: {kind: threshold, threshold: {consecutive_failures: 3, open_timeout: 1m}}")+
				fmt.Sprintf("routes: [{method: testbackend.Echo/Unary, outcome: {field: sub.colour, ok: [COLOUR_UNSPECIFIED, \"2\"], breaker: %v}}]\n", breaker))
			for _, body := range []string{"{}", `{"sub": {"colour": "GREEN"}}`} {
				r.call(t, "POST", echoPath, body).ok(t, "")
			}
			for range 3 {
				a := r.call(t, "POST", echoPath, `{"sub": {"colour": "RED"}}`)
				a.ok(t, "")
				if between(t, a.Body, `"colour":"`, `"`) == "" {
					t.Error("the response is not the backend's")
				}
			}
			if n := r.Metric("rpcgate_business_failures_total", "backend", "echo", "route", echoPath); n != 3 {
				t.Errorf("%v business failures are counted", n)
			}
			if n := r.Metric("rpcgate_calls_total", "route", echoPath, "code", "OK"); n != 5 {
				t.Errorf("%v calls were OK", n)
			}
			r.WaitLog(`"outcome":"failed"`, `"code":"OK"`)
			gatewaytest.Eventually(t, func() error {
				a := r.call(t, "POST", echoPath, "{}")
				if open := a.Status == http.StatusServiceUnavailable; open != breaker {
					return fmt.Errorf("the next call gets %d: %s", a.Status, a.Body)
				}
				return nil
			})
		})
	}
}
