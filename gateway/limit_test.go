package gateway

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/routes"
)

// fakeLimiter gives allowances of one gateway that has no store. Its clock stands
// still.
type fakeLimiter struct {
	down limits.WhenDown

	mu    sync.Mutex
	known map[limits.Key]*limits.Allowance
}

func (f *fakeLimiter) Now() time.Duration { return time.Second }

func (f *fakeLimiter) Find(key limits.Key, spec limits.Spec) *limits.Allowance {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.known[key]; a != nil {
		a.Change(spec, 1, f.Now())
		return a
	}
	a := limits.NewAllowance(spec, 1, f.Now(), limits.AllowanceOptions{
		WhenDown: f.down,
		Ask:      func(time.Duration) {},
		Period:   func(time.Duration) (string, time.Duration) { return "today", time.Hour },
	})
	f.known[key] = a
	return a
}

// notedPeer keeps what is said beside a failure.
type notedPeer struct {
	silentPeer

	noted metadata.MD
}

func (p *notedPeer) note(md metadata.MD) { p.noted = maps.Clone(md) }

// limitingGateway has apps whose names are their tokens.
func limitingGateway(cfg config.Limiting, of func(app string) *auth.Principal) (*Gateway, *fakeLimiter, *prometheus.Registry) {
	g, _, reg := newTestGateway(verifyFunc(func(c auth.Credential) (*auth.Principal, error) { return of(c.App), nil }))
	f := &fakeLimiter{known: map[limits.Key]*limits.Allowance{}}
	g.limiter = newLimiter(f, cfg, reg)
	return g, f, reg
}

func served(context.Context, *Call) error { return nil }

// call makes one call, and gives its failure and what its caller is told.
func limitedCall(t *testing.T, h Handler, r *routes.Route, app string) (*callError, metadata.MD) {
	t.Helper()
	p := new(notedPeer)
	c := newTestCall(r, p)
	c.Credential = auth.Credential{App: app, Token: "token"}
	failure := describe(h(t.Context(), c))
	if failure != nil && p.noted != nil {
		return failure, p.noted
	}
	return failure, c.mark(nil)
}

// All limits that apply have to be kept, and what one refuses costs the others
// nothing.
func TestLimitsCombine(t *testing.T) {
	t.Parallel()
	rate := func(n int) config.Limits { return config.Limits{Rate: n, Per: time.Minute} }
	for name, tc := range map[string]struct {
		cfg              config.Limiting
		app, token       config.Limits
		route            config.Limits
		granted          int
		limit            string
		othersLeft       string // of RateLimit at the first refusal
		anotherRouteGoes bool
	}{
		"none":             {granted: 20},
		"app":              {app: rate(3), granted: 3, limit: "app"},
		"token":            {token: rate(2), app: rate(5), granted: 2, limit: "token", othersLeft: `"app";r=3`},
		"route":            {route: rate(1), app: rate(5), granted: 1, limit: "route", othersLeft: `"app";r=4`, anotherRouteGoes: true},
		"daily":            {app: config.Limits{Rate: 9, Per: time.Minute, Daily: 4}, granted: 4, limit: "app-daily", othersLeft: `"app";r=5`},
		"monthly":          {token: config.Limits{Monthly: 3}, granted: 3, limit: "token-monthly"},
		"defaults":         {cfg: config.Limiting{App: rate(4), Token: rate(6)}, granted: 4, limit: "app"},
		"own, not all's":   {cfg: config.Limiting{App: rate(4)}, app: rate(6), granted: 6, limit: "app"},
		"own beside all's": {cfg: config.Limiting{App: rate(4)}, app: config.Limits{Daily: 6}, granted: 4, limit: "app"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &auth.Principal{App: "acme", TokenID: "t1", AppLimits: tc.app, TokenLimits: tc.token}
			tc.cfg.Headers = true
			g, _, _ := limitingGateway(tc.cfg, func(string) *auth.Principal { return p })
			r := testRoute()
			r.Limits = tc.route
			h := g.pipeline(r, served)
			for i := range tc.granted {
				if f, _ := limitedCall(t, h, r, "acme"); f != nil {
					t.Fatalf("call %d: %v", i, f)
				}
			}
			if tc.limit == "" {
				return
			}
			for range 3 { // it costs the others nothing
				f, md := limitedCall(t, h, r, "acme")
				if f == nil || f.Reason != "RATE_LIMITED" || f.Code != codes.ResourceExhausted || f.HTTPStatus() != 429 || f.RetryAfter <= 0 {
					t.Fatalf("the call after them: %+v", f)
				}
				if f.info["limit"] != tc.limit {
					t.Errorf("it is refused by %q, want %q", f.info["limit"], tc.limit)
				}
				if told := md.Get(keyRateLimit)[0]; !strings.Contains(told, `"`+tc.limit+`";r=0;`) || !strings.Contains(told, tc.othersLeft) {
					t.Errorf("it is told %q", told)
				}
			}
			other := testRoute()
			other.FullMethod = "/shop.UserService/ListUsers"
			if f, _ := limitedCall(t, g.pipeline(other, served), other, "acme"); (f == nil) != tc.anotherRouteGoes {
				t.Errorf("a call by another route: %v", f)
			}
		})
	}
}

// Tokens of one app share the app's limit, and have their own each; apps share
// nothing.
func TestLimitsAreWhose(t *testing.T) {
	t.Parallel()
	principals := map[string]*auth.Principal{
		"a1": {App: "a", TokenID: "1"}, "a2": {App: "a", TokenID: "2"}, "b1": {App: "b", TokenID: "1"},
	}
	g, _, _ := limitingGateway(config.Limiting{App: config.Limits{Rate: 3}, Token: config.Limits{Rate: 2}},
		func(name string) *auth.Principal { return principals[name] })
	r := testRoute()
	h := g.pipeline(r, served)
	for _, want := range []struct {
		who   string
		limit string // "": it goes on
	}{{"a1", ""}, {"a1", ""}, {"a1", "token"}, {"a2", ""}, {"a2", "app"}, {"b1", ""}, {"b1", ""}, {"b1", "token"}} {
		got := ""
		if f, _ := limitedCall(t, h, r, want.who); f != nil {
			got = f.info["limit"]
		}
		if got != want.limit {
			t.Fatalf("a call of %s is refused by %q, want %q", want.who, got, want.limit)
		}
	}
}

// What a principal may use changes with the next principal.
func TestLimitsChange(t *testing.T) {
	t.Parallel()
	p := &auth.Principal{App: "a", TokenID: "1", AppLimits: config.Limits{Rate: 1, Per: time.Hour}}
	g, _, _ := limitingGateway(config.Limiting{}, func(string) *auth.Principal { return p })
	r := testRoute()
	h := g.pipeline(r, served)
	count := func() (n int) {
		for range 20 {
			if f, _ := limitedCall(t, h, r, "a"); f == nil {
				n++
			}
		}
		return n
	}
	if n := count(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
	p = &auth.Principal{App: "a", TokenID: "1", AppLimits: config.Limits{Rate: 5, Per: time.Hour}}
	if n := count(); n != 5 {
		t.Errorf("%d calls after the change, want 5", n)
	}
	p = &auth.Principal{App: "a", TokenID: "1"}
	if n := count(); n != 20 {
		t.Errorf("%d calls without a limit, want 20", n)
	}
}

// A route without a credential has a limit of its own, which all callers share.
func TestLimitOfOpenRoute(t *testing.T) {
	t.Parallel()
	g, _, _ := limitingGateway(config.Limiting{App: config.Limits{Rate: 1}}, nil)
	r := testRoute()
	r.AuthNone = true
	if g.limiter.limit(r) != nil {
		t.Error("a route that nothing limits has the step")
	}
	r.Limits.Rate = 2
	h := g.pipeline(r, served)
	for i, want := range []string{"", "", "callers together may make 2 calls of this method per 1s"} {
		got := ""
		if f, _ := limitedCall(t, h, r, ""); f != nil {
			got = f.Message
		}
		if got != want {
			t.Errorf("call %d: %q, want %q", i, got, want)
		}
	}
}

// Callers are told what there is and what is left, of successes too, or not.
func TestLimitHeaders(t *testing.T) {
	t.Parallel()
	p := &auth.Principal{
		App: "acme", TokenID: "1",
		AppLimits:   config.Limits{Rate: 100, Burst: 150, Per: time.Minute, Daily: 1000},
		TokenLimits: config.Limits{Monthly: 5000},
	}
	for _, on := range []bool{true, false} {
		g, _, _ := limitingGateway(config.Limiting{Headers: on}, func(string) *auth.Principal { return p })
		r := testRoute()
		h := g.pipeline(r, served)
		for i := range 3 {
			_, md := limitedCall(t, h, r, "acme")
			if !on {
				if len(md) != 0 {
					t.Errorf("headers are off, and there are %v", md)
				}
				continue
			}
			policy := `"app";q=100;w=60;rpcgate-burst=150, "app-daily";q=1000;w=86400, "token-monthly";q=5000`
			if got := md.Get(keyRateLimitPolicy); len(got) != 1 || got[0] != policy {
				t.Errorf("the policy is %q, want %q", got, policy)
			}
			left := [...]string{
				`"app";r=149;t=1, "app-daily";r=999;t=3599, "token-monthly";r=4999;t=3599`,
				`"app";r=148;t=1, "app-daily";r=998;t=3599, "token-monthly";r=4998;t=3599`,
				`"app";r=147;t=1, "app-daily";r=997;t=3599, "token-monthly";r=4997;t=3599`,
			}[i]
			if got := md.Get(keyRateLimit); len(got) != 1 || got[0] != left {
				t.Errorf("what is left is %q, want %q", got, left)
			}
		}
	}
}

func decisionsOf(limit string, exhausted, granted int) string {
	line := func(outcome string, n int) string {
		return fmt.Sprintf("rpcgate_limit_decisions_total{limit=%q,outcome=%q} %d\n", limit, outcome, n)
	}
	return line("exhausted", exhausted) + line("granted", granted) + line("store_down", 0) + line("uncounted", 0)
}

// Refusals say which limit it was, in the error's details too.
func TestRateLimitedDetails(t *testing.T) {
	t.Parallel()
	p := &auth.Principal{App: "acme", AppLimits: config.Limits{Daily: 1}}
	g, _, reg := limitingGateway(config.Limiting{}, func(string) *auth.Principal { return p })
	r := testRoute()
	h := g.pipeline(r, served)
	limitedCall(t, h, r, "acme")
	f, _ := limitedCall(t, h, r, "acme")
	if f == nil {
		t.Fatal("the second call went on")
	}
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	for _, d := range f.Status().Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	want := map[string]string{"limit": "app-daily", "calls": "1", "per": "day"}
	if info.GetReason() != "RATE_LIMITED" || !maps.Equal(info.GetMetadata(), want) || retry.GetRetryDelay().AsDuration() != 3599*time.Second {
		t.Errorf("the details are %v, %v", info, retry)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP rpcgate_limit_decisions_total What rates and quotas decided of calls, by limit (app, token, route, daily, monthly) and outcome: granted, uncounted (Redis did not answer, and the call went on), exhausted, or store_down (it did not, and the call did not).
# TYPE rpcgate_limit_decisions_total counter
`+decisionsOf("app", 0, 0)+decisionsOf("daily", 1, 1)+decisionsOf("monthly", 0, 0)+decisionsOf("route", 0, 0)+decisionsOf("token", 0, 0)),
		"rpcgate_limit_decisions_total"); err != nil {
		t.Error(err)
	}
}

// With store_down: closed, what a store that does not answer cannot tell is no
// fault of the caller's.
func TestLimitsUnavailable(t *testing.T) {
	t.Parallel()
	p := &auth.Principal{App: "acme", AppLimits: config.Limits{Rate: 1}}
	g, f, _ := limitingGateway(config.Limiting{Headers: true}, func(string) *auth.Principal { return p })
	f.down = limits.DownClosed
	r := testRoute()
	h := g.pipeline(r, served)
	f.Find(limits.Key{App: "acme"}, limits.Spec{Calls: 1, Burst: 1, Per: time.Second}).Failed(f.Now())
	failure, md := limitedCall(t, h, r, "acme")
	if failure == nil || failure.Reason != "LIMITS_UNAVAILABLE" || failure.HTTPStatus() != 503 || failure.RetryAfter != time.Second || len(md) != 0 {
		t.Errorf("it fails with %+v, %v", failure, md)
	}
}

// The memo is bounded, keeps what is used, and drops what is not.
func TestLimitMemo(t *testing.T) {
	t.Parallel()
	m := newMemo()
	key := func() memoKey { return memoKey{principal: new(auth.Principal)} }
	used, unused := key(), key()
	by := new(callLimits)
	m.put(used, by)
	m.put(unused, by)
	for i := range 3 * memoSize {
		k := key()
		if i%2 == 0 { // of one principal, by many routes
			k = memoKey{used.principal, new(routes.Route)}
		}
		m.put(k, by)
		if m.get(used) != by {
			t.Fatal("one that is used was forgotten")
		}
	}
	if m.get(unused) != nil {
		t.Error("one that is not used is remembered")
	}
	if n := m.table.Len(); n > memoSize {
		t.Errorf("%d are remembered, want %d at most", n, memoSize)
	}
}

func limitStep(g *Gateway, r *routes.Route) Handler {
	return g.limiter.limit(r)(func(context.Context, *Call) error { return nil })
}

// BenchmarkLimit is what the step costs a call: with an app's rate; with all
// there can be; and with nothing.
func BenchmarkLimit(b *testing.B) {
	const many = 1_000_000_000
	for _, bc := range []struct {
		name       string
		app, token config.Limits
		route      config.Limits
	}{
		{name: "none"},
		{name: "app", app: config.Limits{Rate: many}},
		{name: "app, token, route", app: config.Limits{Rate: many}, token: config.Limits{Rate: many}, route: config.Limits{Rate: many}},
		{name: "with quotas, too", app: config.Limits{Rate: many, Daily: many, Monthly: many}, token: config.Limits{Rate: many}, route: config.Limits{Rate: many}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			p := &auth.Principal{App: "acme", TokenID: "1", AppLimits: bc.app, TokenLimits: bc.token}
			g, _, _ := limitingGateway(config.Limiting{Headers: true}, func(string) *auth.Principal { return p })
			r := testRoute()
			r.Limits = bc.route
			h := limitStep(g, r)
			ctx := b.Context()
			c := newTestCall(r, silentPeer{})
			c.Principal = p
			b.ReportAllocs()
			for b.Loop() {
				if err := h(ctx, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A call within its limits costs no memory; to tell of them does.
func TestLimitAllocatesNothing(t *testing.T) {
	p := &auth.Principal{App: "acme", TokenID: "1", AppLimits: config.Limits{Rate: 1_000_000_000}}
	g, _, _ := limitingGateway(config.Limiting{Headers: true}, nil)
	r := testRoute()
	h := limitStep(g, r)
	c := newTestCall(r, silentPeer{})
	c.Principal = p
	if n := testing.AllocsPerRun(1000, func() { _ = h(t.Context(), c) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}
