package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

// sheddingGateway has a limit of calls in flight, and apps whose names are their
// tokens.
func sheddingGateway(maxCalls int) (*Gateway, *prometheus.Registry) {
	g, _, reg := newTestGateway(verifyFunc(func(c auth.Credential) (*auth.Principal, error) {
		if c.Token == "wrong" {
			return nil, auth.ErrInvalid
		}
		return &auth.Principal{App: c.App, TokenID: c.Token}, nil
	}))
	g.shedder = newShedder(config.Overload{MaxCalls: maxCalls}, reg)
	return g, reg
}

func callOf(r *routes.Route, app string) *Call {
	c := newTestCall(r, silentPeer{})
	c.Credential = auth.Credential{App: app, Token: "token"}
	return c
}

// However a call ends, its place is free again.
func TestShedPlacesComeBack(t *testing.T) {
	t.Parallel()
	g, _ := sheddingGateway(10)
	r := testRoute()
	for name, tc := range map[string]struct {
		dispatch Handler
		token    string
	}{
		"success": {func(context.Context, *Call) error { return nil }, "token"},
		"failure": {func(context.Context, *Call) error { return errors.New("x") }, "token"},
		"panic":   {func(context.Context, *Call) error { panic("x") }, "token"},
		"gone":    {func(context.Context, *Call) error { return context.Canceled }, "token"},
		"refused": {nil, "wrong"},
	} {
		h := g.pipeline(r, tc.dispatch)
		for range 100 {
			c := callOf(r, "acme")
			c.Credential.Token = tc.token
			if f := describe(h(t.Context(), c)); f != nil && f.Reason == "OVERLOADED" {
				t.Fatalf("%s: a place was not given back", name)
			}
		}
		if n := g.Overload().InFlight; n != 0 {
			t.Fatalf("%s: %d calls in flight", name, n)
		}
	}
}

// Whose places are taken is refused, the lower priority first; others are not.
func TestShedByAppAndPriority(t *testing.T) {
	t.Parallel()
	g, reg := sheddingGateway(100)
	begun, over := make(chan struct{}), make(chan struct{})
	normal, low, high := testRoute(), testRoute(), testRoute()
	low.Priority, high.Priority = "low", "high"
	slow := g.pipeline(normal, func(context.Context, *Call) error {
		begun <- struct{}{}
		<-over
		return nil
	})
	ended := make(chan error)
	running := 0
	for {
		go func() { ended <- slow(t.Context(), callOf(normal, "flooder")) }()
		select {
		case <-begun:
			running++
			continue
		case err := <-ended:
			if f := describe(err); f.Reason != "OVERLOADED" || f.Code != codes.ResourceExhausted || f.HTTPStatus() != 503 || f.RetryAfter == 0 {
				t.Fatalf("got %+v", f)
			}
		}
		break
	}
	if running < 70 || running > 95 {
		t.Errorf("the flooder has %d of 100 places", running)
	}
	quick := func(r *routes.Route, app string) string {
		f := describe(g.pipeline(r, func(context.Context, *Call) error { return nil })(t.Context(), callOf(r, app)))
		if f == nil {
			return "OK"
		}
		return f.Reason
	}
	for _, tc := range []struct {
		route *routes.Route
		app   string
		want  string
	}{
		{normal, "flooder", "OVERLOADED"},
		{low, "flooder", "OVERLOADED"},
		{high, "flooder", "OK"},
		{normal, "other", "OK"},
		{low, "other", "OVERLOADED"}, // who is not over the share is shed by priority
	} {
		if got := quick(tc.route, tc.app); got != tc.want {
			t.Errorf("%s's call of priority %q: %s, want %s", tc.app, tc.route.Priority, got, tc.want)
		}
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP rpcgate_calls_shed_total Calls that were shed, by reason and by priority of their routes. max_calls: there were as many in flight as there may be; share: their app had more than its share of them; queue_delay: calls waited too long to be run; held_size: there were as many bytes held as there may be of their app.
# TYPE rpcgate_calls_shed_total counter
rpcgate_calls_shed_total{priority="critical",reason="held_size"} 0
rpcgate_calls_shed_total{priority="critical",reason="max_calls"} 0
rpcgate_calls_shed_total{priority="critical",reason="queue_delay"} 0
rpcgate_calls_shed_total{priority="critical",reason="share"} 0
rpcgate_calls_shed_total{priority="high",reason="held_size"} 0
rpcgate_calls_shed_total{priority="high",reason="max_calls"} 0
rpcgate_calls_shed_total{priority="high",reason="queue_delay"} 0
rpcgate_calls_shed_total{priority="high",reason="share"} 0
rpcgate_calls_shed_total{priority="low",reason="held_size"} 0
rpcgate_calls_shed_total{priority="low",reason="max_calls"} 2
rpcgate_calls_shed_total{priority="low",reason="queue_delay"} 0
rpcgate_calls_shed_total{priority="low",reason="share"} 0
rpcgate_calls_shed_total{priority="normal",reason="held_size"} 0
rpcgate_calls_shed_total{priority="normal",reason="max_calls"} 0
rpcgate_calls_shed_total{priority="normal",reason="queue_delay"} 0
rpcgate_calls_shed_total{priority="normal",reason="share"} 2
`), "rpcgate_calls_shed_total"); err != nil {
		t.Error(err)
	}
	close(over)
	for range running {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for _, app := range []string{"flooder", "other"} {
		if got := quick(low, app); got != "OK" {
			t.Errorf("after the flood %s's call: %s", app, got)
		}
	}
}
