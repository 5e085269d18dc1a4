package rpcproxy

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// moody is a backend that fails the calls of the apps that it is told to.
func moody(fails func(app string) codes.Code) grpc.StreamHandler {
	return func(_ any, ss grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(ss.Context())
		if code := fails(strings.Join(md["app"], "")); code != codes.OK {
			return status.Error(code, "moody")
		}
		return echo(nil, ss)
	}
}

// failsFor fails one app's calls.
func failsFor(app string, code codes.Code) func(string) codes.Code {
	return func(a string) codes.Code {
		if a == app {
			return code
		}
		return codes.OK
	}
}

func TestBreakerOfOneApp(t *testing.T) {
	for name, tt := range map[string]struct {
		scope string
		code  codes.Code
	}{
		"scope app":            {"app", codes.Internal},
		"exhausted":            {"method", codes.ResourceExhausted},
		"exhausted, scope app": {"app", codes.ResourceExhausted},
	} {
		for _, r := range roads() {
			t.Run(name+", "+road(r), func(t *testing.T) {
				s := serve(t, moody(failsFor("a", tt.code)))
				b := newBackend(t, s.addr, func(c *config.Backend) {
					thresholdBreaker(c)
					c.Breaker.Scope = tt.scope
				}, Options{})
				forward := func(name string) error {
					r := r
					r.Credential = app(name)
					return b.Forward(testContext(t), &r, &exchange{requests: []string{"x"}})
				}
				for range 5 {
					if err := forward("a"); status.Code(err) != tt.code {
						t.Fatal(err)
					}
				}
				err := forward("a")
				var open *BreakerOpenError
				if !errors.As(err, &open) || !open.AppOnly || open.Forced || !strings.Contains(open.Error(), "this app's") {
					t.Fatalf("Forward: %T %v, want a BreakerOpenError of the app's own", err, err)
				}
				for range 10 {
					if err := forward("b"); err != nil {
						t.Fatalf("another app's call: %v", err)
					}
				}
				views := b.Breakers()
				v := views[len(views)-1]
				if v.Method != testMethod || v.App != "a" || v.State != breaker.Open || v.LastFailure.Why != codeName(tt.code) ||
					v.Opening.Counts.Failures != 5 {
					t.Errorf("shown as %+v", v)
				}
			})
		}
	}
}

// A call counts once, however many attempts there were, and with its end: what a
// retry made good is no failure.
func TestBreakerCountsCallsNotAttempts(t *testing.T) {
	var calls atomic.Int64
	s := serve(t, moody(func(app string) codes.Code {
		if n := calls.Add(1); app == "dead" || n%2 == 1 {
			return codes.Unavailable
		}
		return codes.OK
	}))
	b := newBackend(t, s.addr, func(c *config.Backend) {
		thresholdBreaker(c)
		c.Retry.MaxAttempts, c.Retry.Backoff, c.Retry.MaxBackoff = 3, time.Millisecond, time.Millisecond
		c.Retry.Budget.MinPerSecond = 1000
	}, Options{})
	forward := func(name string) error {
		r := &Request{Method: testMethod, Credential: app(name), Idempotent: true}
		return b.Forward(testContext(t), r, &exchange{requests: []string{"x"}})
	}
	for range 20 { // each of which needs two attempts
		if err := forward("a"); err != nil {
			t.Fatal(err)
		}
	}
	if v := b.Breakers()[0]; v.State != breaker.Closed || v.Window.Failures != 0 || v.Window.Successes != 20 {
		t.Errorf("after 20 calls of two attempts: %v, %+v", v.State, v.Window)
	}
	before := calls.Load()
	for range 4 {
		_ = forward("dead")
	}
	if v := b.Breakers()[0]; v.State != breaker.Closed || v.Window.Failures != 4 || calls.Load() != before+12 {
		t.Errorf("after four calls, %d attempts: %v, %+v", calls.Load()-before, v.State, v.Window)
	}
	_ = forward("dead")
	if v := b.Breakers()[0]; v.State != breaker.Open {
		t.Errorf("after five calls that failed: %v", v.State)
	}
}

// A success that the route takes for a failure counts as one where it is asked
// for.
func TestBreakerCountsJudgedFailures(t *testing.T) {
	s := serve(t, echo)
	for _, counts := range []bool{false, true} {
		b := newBackend(t, s.addr, thresholdBreaker, Options{})
		for range 5 {
			r := &Request{Method: testMethod, Judge: func(mem.BufferSlice) bool { return false }, JudgeCounts: counts}
			if err := b.Forward(testContext(t), r, &exchange{requests: []string{"x"}}); err != nil {
				t.Fatal(err)
			}
		}
		v := b.Breakers()[0]
		if opened := v.State == breaker.Open; opened != counts || counts && v.LastFailure.Why != judgedFailure {
			t.Errorf("where it counts is %v: %+v", counts, v)
		}
	}
}

func TestForceBreaker(t *testing.T) {
	var sick atomic.Bool
	s := serve(t, moody(func(string) codes.Code {
		if sick.Load() {
			return codes.Internal
		}
		return codes.OK
	}))
	var log bytes.Buffer
	b := newBackend(t, s.addr, thresholdBreaker, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	order := func(s breaker.State, app ...string) {
		t.Helper()
		o := BreakerOrder{Method: testMethod, State: &s, By: "op"}
		if len(app) > 0 {
			o.App = &app[0]
		}
		if err := b.ForceBreaker(o); err != nil {
			t.Fatal(err)
		}
	}
	forward := func(name string) error {
		_, err := unary(testContext(t), b, app(name), "x")
		return err
	}
	order(breaker.Open)
	var open *BreakerOpenError
	if err := forward("a"); !errors.As(err, &open) || !open.Forced || open.AppOnly || open.RetryAfter <= 0 ||
		!strings.Contains(open.Error(), "forced open by an operator") {
		t.Fatalf("forced open: %v", err)
	}
	// Also for a call that the breaker itself would not hold back.
	err := b.Forward(testContext(t), &Request{Method: testMethod, Endpoint: s.addr}, &exchange{requests: []string{"x"}})
	if !errors.As(err, &open) || !open.Forced {
		t.Fatalf("forced open, to one endpoint: %v", err)
	}
	order(breaker.Closed, "vip")
	sick.Store(true)
	for range 20 {
		if err := forward("vip"); status.Code(err) != codes.Internal {
			t.Fatalf("forced closed for the app: %v", err)
		}
	}
	views := b.Breakers()
	if len(views) != 2 || views[0].AppOnly || views[0].Forced.By != "op" || views[1].App != "vip" || views[1].State != breaker.Closed {
		t.Errorf("shown as %+v", views)
	}
	sick.Store(false)
	if err := b.ForceBreaker(BreakerOrder{Method: testMethod}); err != nil {
		t.Fatal(err)
	}
	if err := forward("a"); err != nil {
		t.Errorf("no longer forced: %v", err)
	}
	for _, want := range []string{
		`"breaker is forced" backend=test method=` + testMethod + ` state=open by=op`,
		`"breaker is forced" backend=test method=` + testMethod + ` state=closed app=vip by=op`,
		`"breaker is forced no more" backend=test method=` + testMethod,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &log)
		}
	}
	if err := b.ForceBreaker(BreakerOrder{Method: testMethod, State: new(breaker.HalfOpen)}); err == nil {
		t.Error("forced half-open")
	}
}

// What becomes of many breakers at once does not fill the log.
func TestBreakerLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := &breakerLog{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 1000 {
			l.note("/m", breaker.Change{To: breaker.Open})
		}
		if n := strings.Count(log.String(), "\n"); n != gateLines {
			t.Errorf("%d lines, want %d", n, gateLines)
		}
		l.note("/m", breaker.Change{To: breaker.Open, Forced: &breaker.Forced{By: "op"}})
		time.Sleep(time.Second)
		log.Reset()
		l.note("/m", breaker.Change{To: breaker.Closed})
		l.note("/m", breaker.Change{To: breaker.Open})
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines a second later:\n%s", n, &log)
		}
	})
}
