package gateway

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/telemetry"
	"github.com/rpcgate/rpcgate/usage"
)

// hold is a handler that keeps calls in flight until they are let go.
type hold struct {
	entered, release chan struct{}
}

func (h hold) serve(context.Context, *Call) error {
	h.entered <- struct{}{}
	<-h.release
	return nil
}

// inFlight tells how many of n calls at once get as far as the backend, and what
// the others are told.
func inFlight(b *bounder, r *routes.Route, n int, of func(i int) *auth.Principal) (passed int, refused []*callError) {
	h := hold{make(chan struct{}), make(chan struct{})}
	step := b.bound(r)(h.serve)
	outcome := make(chan error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { outcome <- step(context.Background(), &Call{Principal: of(i), Route: r}) })
		select {
		case <-h.entered:
			passed++
		case err := <-outcome:
			refused = append(refused, describe(err))
		}
	}
	close(h.release)
	running.Wait()
	return passed, refused
}

func TestWhatIsInFlightIsBounded(t *testing.T) {
	t.Parallel()
	app := func(limits config.Limits) func(int) *auth.Principal {
		return func(int) *auth.Principal { return &auth.Principal{App: "acme", TokenID: "t", AppLimits: limits} }
	}
	token := func(limits config.Limits) func(int) *auth.Principal {
		return func(i int) *auth.Principal {
			return &auth.Principal{App: "acme", TokenID: string(rune('a' + i%2)), TokenLimits: limits}
		}
	}
	for name, tc := range map[string]struct {
		cfg    config.Limiting
		route  routes.Route
		of     func(int) *auth.Principal
		passed int
		reason string
	}{
		"nothing":                     {of: app(config.Limits{}), passed: 20},
		"the app's":                   {of: app(config.Limits{Concurrency: 5}), passed: 5, reason: "CONCURRENCY_LIMITED"},
		"each token's":                {of: token(config.Limits{Concurrency: 5}), passed: 10, reason: "CONCURRENCY_LIMITED"},
		"the route's":                 {route: routes.Route{Limits: config.Limits{Concurrency: 4}}, of: app(config.Limits{}), passed: 4, reason: "CONCURRENCY_LIMITED"},
		"the config's":                {cfg: config.Limiting{App: config.Limits{Concurrency: 3}}, of: app(config.Limits{}), passed: 3, reason: "CONCURRENCY_LIMITED"},
		"the app's own, not config's": {cfg: config.Limiting{App: config.Limits{Concurrency: 3}}, of: app(config.Limits{Concurrency: 7}), passed: 7, reason: "CONCURRENCY_LIMITED"},
		"the least of all": {
			cfg: config.Limiting{Token: config.Limits{Concurrency: 2}}, route: routes.Route{Limits: config.Limits{Concurrency: 4}},
			of: app(config.Limits{Concurrency: 5}), passed: 2, reason: "CONCURRENCY_LIMITED",
		},
		"streams of a route that does not stream": {of: app(config.Limits{Streams: 1}), passed: 20},
		"streams":                {route: routes.Route{ServerStreams: true}, of: app(config.Limits{Streams: 6}), passed: 6, reason: "STREAMS_LIMITED"},
		"streams count as calls": {route: routes.Route{ClientStreams: true}, of: app(config.Limits{Streams: 6, Concurrency: 2}), passed: 2, reason: "CONCURRENCY_LIMITED"},
		"a route without auth":   {route: routes.Route{Limits: config.Limits{Concurrency: 4}}, of: func(int) *auth.Principal { return nil }, passed: 4, reason: "CONCURRENCY_LIMITED"},
		"without auth, config's": {cfg: config.Limiting{App: config.Limits{Concurrency: 3}}, of: func(int) *auth.Principal { return nil }, passed: 20},
		"the token of zRPC's hash": {of: func(int) *auth.Principal {
			return &auth.Principal{App: "a", TokenLimits: config.Limits{Concurrency: 3}}
		}, passed: 3, reason: "CONCURRENCY_LIMITED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBounder(tc.cfg, nil)
			tc.route.FullMethod = "/a.B/C"
			for round := range 2 { // the places are free again
				passed, refused := inFlight(b, &tc.route, 20, tc.of)
				if passed != tc.passed {
					t.Errorf("round %d: %d of 20 calls pass, want %d", round, passed, tc.passed)
				}
				for _, f := range refused {
					if f.Reason != tc.reason || f.Code != codes.ResourceExhausted || f.HTTPStatus() != 429 || f.RetryAfter != time.Second {
						t.Errorf("refused with %+v, want %s", f, tc.reason)
					}
				}
			}
		})
	}
}

func TestAppsHaveTheirOwnPlaces(t *testing.T) {
	t.Parallel()
	b := newBounder(config.Limiting{App: config.Limits{Concurrency: 1}}, nil)
	passed, _ := inFlight(b, &routes.Route{}, 20, func(i int) *auth.Principal { return &auth.Principal{App: string(rune('a' + i))} })
	if passed != 20 {
		t.Errorf("%d of 20 apps have a call, want all", passed)
	}
}

func TestAPanicLeavesItsPlace(t *testing.T) {
	t.Parallel()
	b := newBounder(config.Limiting{App: config.Limits{Concurrency: 1}}, nil)
	p := &auth.Principal{App: "acme"}
	step := b.bound(&routes.Route{})(func(context.Context, *Call) error { panic("x") })
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the call did not get through")
				}
			}()
			_ = step(context.Background(), &Call{Principal: p})
		}()
	}
}

func TestStreamsEndWithTheirLifetime(t *testing.T) {
	t.Parallel()
	limited := func(d time.Duration) *auth.Principal {
		return &auth.Principal{App: "acme", AppLimits: config.Limits{StreamLifetime: d}}
	}
	stream := &routes.Route{ServerStreams: true}
	untilCancelled := func(ctx context.Context, _ *Call) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, tc := range map[string]struct {
		route  *routes.Route
		p      *auth.Principal
		next   Handler
		caller time.Duration // after which the caller leaves; 0: it stays
		took   time.Duration
		reason string
	}{
		"outlived":               {stream, limited(time.Minute), untilCancelled, 0, time.Minute, "STREAM_LIFETIME"},
		"the caller leaves":      {stream, limited(time.Minute), untilCancelled, time.Second, time.Second, "CANCELLED"},
		"it ends":                {stream, limited(time.Minute), func(context.Context, *Call) error { return nil }, 0, 0, ""},
		"it fails":               {stream, limited(time.Minute), func(context.Context, *Call) error { return errNoMessage }, 0, 0, "BAD_MESSAGE"},
		"it ends well, late":     {stream, limited(time.Minute), func(ctx context.Context, _ *Call) error { <-ctx.Done(); return nil }, 0, time.Minute, ""},
		"no stream":              {&routes.Route{}, limited(time.Minute), untilCancelled, time.Hour, time.Hour, "CANCELLED"},
		"the route's is shorter": {&routes.Route{ServerStreams: true, Limits: config.Limits{StreamLifetime: time.Second}}, limited(time.Minute), untilCancelled, 0, time.Second, "STREAM_LIFETIME"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				reg := prometheus.NewRegistry()
				b := newBounder(config.Limiting{}, reg)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.caller > 0 {
					time.AfterFunc(tc.caller, cancel)
				}
				start := time.Now()
				seen := false
				err := b.bound(tc.route)(func(ctx context.Context, c *Call) error {
					_, seen = ctx.Deadline()
					return tc.next(ctx, c)
				})(ctx, &Call{Principal: tc.p, Route: tc.route})
				if took := time.Since(start); took != tc.took {
					t.Errorf("the stream took %v, want %v", took, tc.took)
				}
				if failure := describe(err); (failure == nil) != (tc.reason == "") || failure != nil && failure.Reason != tc.reason {
					t.Errorf("it ends with %v, want %s", err, tc.reason)
				}
				if seen {
					t.Error("the backend would be told of a deadline that is not the caller's")
				}
				want := 0
				if tc.reason == "STREAM_LIFETIME" {
					want = 1
				}
				got := 0
				for _, c := range b.counters[boundLifetime] {
					got += int(testutil.ToFloat64(c))
				}
				if got != want {
					t.Errorf("%d streams are counted, want %d", got, want)
				}
			})
		})
	}
}

func TestTooLargeBodiesTellWhoseLimitItIs(t *testing.T) {
	t.Parallel()
	c := &Call{Principal: &auth.Principal{App: "a", TokenLimits: config.Limits{MaxBody: 10}}}
	b := newBounder(config.Limiting{App: config.Limits{MaxBody: 20}}, nil)
	err := b.bound(&routes.Route{Limits: config.Limits{MaxBody: 30}})(func(_ context.Context, c *Call) error {
		if n := c.bodyLimit(1000); n != 10 {
			t.Errorf("the limit is %d, want the least", n)
		}
		if n := c.bodyLimit(5); n != 5 {
			t.Errorf("the limit is %d, want the listener's", n)
		}
		if err := c.overBody(errNoMessage); !errors.Is(err, errNoMessage) {
			t.Errorf("another failure becomes %v", err)
		}
		return c.overBody(errUploadedTooLarge)
	})(t.Context(), c)
	failure := describe(err)
	if failure.Reason != "BODY_TOO_LARGE" || failure.HTTPStatus() != 413 ||
		failure.Message != "the request body, or a message of it, is larger than the token allows, which is 10 bytes" {
		t.Errorf("refused with %+v", failure)
	}
	if n := testutil.ToFloat64(b.counters[boundBody][ofToken]); n != 1 {
		t.Errorf("%v are counted", n)
	}
}

func TestBoundsCostNoMemory(t *testing.T) {
	b := newBounder(config.Limiting{}, nil)
	full := config.Limits{Concurrency: 10, Streams: 10, MaxBody: 1000}
	r := &routes.Route{FullMethod: "/a.B/C", ServerStreams: true, Limits: full}
	step := b.bound(r)(func(context.Context, *Call) error { return nil })
	ctx := t.Context()
	for name, p := range map[string]*auth.Principal{
		"all limits": {App: "acme", TokenID: "t", AppLimits: full, TokenLimits: full}, "none": {App: "acme"},
	} {
		c := &Call{Principal: p, Route: r}
		_ = step(ctx, c)
		if n := testing.AllocsPerRun(1000, func() { _ = step(ctx, c) }); n != 0 {
			t.Errorf("%s: %v allocations a call", name, n)
		}
	}
}

func BenchmarkBound(b *testing.B) {
	bounds := newBounder(config.Limiting{}, nil)
	full := config.Limits{Concurrency: 1000, Streams: 1000, MaxBody: 1000}
	for name, p := range map[string]*auth.Principal{
		"three limits": {App: "acme", TokenID: "t", AppLimits: full, TokenLimits: full}, "none": {App: "acme"},
	} {
		b.Run(name, func(b *testing.B) {
			r := &routes.Route{FullMethod: "/a.B/C"}
			if name != "none" {
				r.Limits = full
			}
			step := bounds.bound(r)(func(context.Context, *Call) error { return nil })
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				c := &Call{Principal: p, Route: r}
				for pb.Next() {
					_ = step(b.Context(), c)
				}
			})
		})
	}
}

// counted is what a Usage was told.
type counted struct {
	app, route string
	blame      usage.Blame
	in, out    int64
}

type usageOf []counted

func (u *usageOf) Count(app, route string, blame usage.Blame, in, out int64) {
	*u = append(*u, counted{app, route, blame, in, out})
}

func TestCallsAreAccountedByBlame(t *testing.T) {
	t.Parallel()
	backend := func(code codes.Code) error { return &rpcproxy.StatusError{Status: status.New(code, "")} }
	for _, tc := range []struct {
		err   error
		blame usage.Blame
		limit telemetry.AppLimit
	}{
		{nil, usage.Nobody, telemetry.AppUnlimited},
		{backend(codes.NotFound), usage.Caller, telemetry.AppUnlimited},
		{backend(codes.Canceled), usage.Caller, telemetry.AppUnlimited},
		{backend(codes.Unavailable), usage.Backend, telemetry.AppUnlimited},
		{backend(codes.Unimplemented), usage.Backend, telemetry.AppUnlimited},
		{backend(codes.ResourceExhausted), usage.Backend, telemetry.AppUnlimited},
		{backend(codes.Unknown), usage.Backend, telemetry.AppUnlimited},
		{context.Canceled, usage.Caller, telemetry.AppUnlimited},
		{errDeadlinePassed, usage.Caller, telemetry.AppUnlimited},
		{&rpcproxy.BreakerOpenError{}, usage.Backend, telemetry.AppUnlimited},
		{&rpcproxy.UnreachableError{}, usage.Backend, telemetry.AppUnlimited},
		{&rpcproxy.BusyError{}, usage.Backend, telemetry.AppUnlimited},
		{&rpcproxy.TimeoutError{}, usage.Backend, telemetry.AppUnlimited},
		{errOverloaded, usage.Gateway, telemetry.AppOverload},
		{errConcurrencyLimited[ofToken], usage.Gateway, telemetry.AppConcurrency},
		{errStreamsLimited[ofApp], usage.Gateway, telemetry.AppStreams},
		{errStreamLifetime, usage.Gateway, telemetry.AppStreamLifetime},
		{bodyLimited(ofApp, 1), usage.Caller, telemetry.AppBody},
		{errNoMessage, usage.Caller, telemetry.AppUnlimited},
		{errors.New("bug"), usage.Gateway, telemetry.AppUnlimited},
		{errDraining, usage.Gateway, telemetry.AppUnlimited},
	} {
		var used usageOf
		a := &accounts{usage: &used, apps: telemetry.NewApps(nil, config.Metrics{}), route: "GET /a"}
		c := &Call{Principal: &auth.Principal{App: "acme"}, Credential: auth.Credential{App: "claimed"}}
		c.traffic.in.Store(3)
		c.traffic.out.Store(5)
		failure := describe(tc.err)
		a.count(c, failure)
		if len(used) != 1 || used[0] != (counted{"acme", "GET /a", tc.blame, 3, 5}) {
			t.Errorf("%v is accounted as %+v, want blame %d", tc.err, used, tc.blame)
		}
		if got := appLimitOf(failure); got != tc.limit {
			t.Errorf("%v is refused by %d, want %d", tc.err, got, tc.limit)
		}
		c.Principal = nil // whoever it claims to be
		a.count(c, failure)
		if len(used) != 1 {
			t.Error("a call that nobody was authenticated for is accounted")
		}
	}
}
