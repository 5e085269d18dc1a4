package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// fleetOf is a backend with endpoints, each of which answers with its name
// after a while.
type fleetOf struct {
	list    []string
	unknown bool // until who asks gives up
	takes   time.Duration
	size    int
	panics  string // an endpoint
	says    string // what each fails with

	running, most atomic.Int64
}

func (f *fleetOf) Addresses(ctx context.Context) ([]string, error) {
	if f.unknown {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.list, nil
}

func (f *fleetOf) Forward(_ context.Context, r *rpcproxy.Request, ex rpcproxy.Exchange) error {
	now := f.running.Add(1)
	defer f.running.Add(-1)
	for most := f.most.Load(); now > most && !f.most.CompareAndSwap(most, now); most = f.most.Load() {
	}
	if r.Endpoint == f.panics {
		panic("broken")
	}
	msg, err := ex.RecvMsg()
	if err != nil {
		return err
	}
	msg.Free()
	if r.Idempotent || r.NoSideEffects || r.Timeout <= 0 {
		return fmt.Errorf("the request may be repeated, or has no limit: %+v", r)
	}
	if f.says != "" {
		return &rpcproxy.StatusError{Status: status.New(codes.Internal, f.says)}
	}
	time.Sleep(min(f.takes, r.Timeout))
	if r.Timeout < f.takes {
		return &rpcproxy.TimeoutError{}
	}
	answer := r.Endpoint + strings.Repeat("x", f.size)
	if err := ex.SendMsg(mem.BufferSlice{mem.SliceBuffer(answer)}); err != nil {
		return &rpcproxy.ExchangeError{Err: err}
	}
	return nil
}

func newTestFanOut(t *testing.T, f *fleetOf, change func(*config.FanOut)) (func() (*askingPeer, error), *fanOut) {
	t.Helper()
	cfg := config.DefaultFanOut()
	if change != nil {
		change(&cfg)
	}
	r := testRoute()
	r.FanOut, r.Timeout, r.Idempotent = &cfg, time.Second, true
	g, _, _ := newTestGateway(verifyFunc(valid))
	out := &fanOut{outbound: g.newOutbound(r, f, newKeptOver(nil).filters), endpoints: f, cfg: cfg, log: g.log}
	h := g.pipeline(r, out.handle)
	return func() (*askingPeer, error) {
		p := &askingPeer{request: "hello"}
		return p, h(t.Context(), newTestCall(r, p))
	}, out
}

func endpointsUpTo(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("h%03d:1", i))
	}
	return list
}

func TestFanOutIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &fleetOf{list: endpointsUpTo(100), takes: 10 * time.Millisecond}
			call, _ := newTestFanOut(t, f, func(c *config.FanOut) { c.Concurrency = 7 })
			p, err := call()
			if err != nil || len(p.messages) != 1 || p.messages[0] != f.list[0] || f.most.Load() != 7 {
				t.Errorf("%v, %q, %d at once", err, p.messages, f.most.Load())
			}
		})
	})
	t.Run("in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &fleetOf{list: endpointsUpTo(4), takes: 400 * time.Millisecond}
			call, _ := newTestFanOut(t, f, func(c *config.FanOut) { c.Concurrency = 1 })
			start := time.Now()
			p, err := call()
			if failure := describe(err); failure == nil || failure.Code != codes.DeadlineExceeded || failure.Reason != fanOutFailed || time.Since(start) != time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			if got := strings.Join(p.trailer[keyResults], ", "); got != "h000:1 OK, h001:1 OK, h002:1 DEADLINE_EXCEEDED, h003:1 DEADLINE_EXCEEDED" {
				t.Error(got)
			}
		})
	})
	t.Run("in what it keeps", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &fleetOf{list: endpointsUpTo(20), size: 1 << 20}
			call, _ := newTestFanOut(t, f, func(c *config.FanOut) { c.Require, c.Concurrency = "any", 1 })
			p, err := call()
			if err != nil || len(p.messages) != 1 {
				t.Fatal(err)
			}
			ok := slices.IndexFunc(p.trailer[keyResults], func(s string) bool { return strings.HasSuffix(s, " RESOURCE_EXHAUSTED") })
			if ok != 15 {
				t.Errorf("%d answers were kept: %v", ok, p.trailer[keyResults])
			}
		})
	})
	t.Run("in what it keeps of failures", func(t *testing.T) {
		f := &fleetOf{list: endpointsUpTo(3), says: strings.Repeat("ä", 1<<20)}
		_, out := newTestFanOut(t, f, nil)
		c := newTestCall(out.route, &askingPeer{})
		for _, r := range out.callAll(t.Context(), c, mem.BufferSlice{mem.SliceBuffer("hello")}, f.list) {
			if r.failure.Code != codes.Internal || r.failure.backend != nil || r.failure.Message != strings.Repeat("ä", maxFailureText/2)+"…" {
				t.Errorf("%s: %v, %d bytes are kept", r.endpoint, r.failure.Code, len(r.failure.Message))
			}
		}
	})
	t.Run("in what it tells", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _ := newTestFanOut(t, &fleetOf{list: endpointsUpTo(1000)}, func(c *config.FanOut) { c.MaxEndpoints = 1000 })
			p, err := call()
			if err != nil {
				t.Fatal(err)
			}
			texts := p.trailer[keyResults]
			if last := texts[len(texts)-1]; last != fmt.Sprintf("and %d more", 1001-len(texts)) || len(strings.Join(texts, "")) > maxResultTexts+32 {
				t.Errorf("%d texts, the last is %q", len(texts), last)
			}
		})
	})
}

func TestFanOutRequires(t *testing.T) {
	t.Parallel()
	for require, want := range map[string][4]bool{ // with 0 to 3 of 3 failures
		"all": {true, false, false, false}, "any": {true, true, true, false}, "none": {true, true, true, true},
	} {
		f := &fanOut{cfg: config.FanOut{Require: require}}
		for failures, holds := range want {
			if f.holds(failures, 3) != holds {
				t.Errorf("%s with %d failures of 3: %v", require, failures, !holds)
			}
		}
	}
}

func TestFanOutWithoutEndpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			f      *fleetOf
			reason string
		}{
			"none":         {&fleetOf{}, "BACKEND_UNREACHABLE"},
			"none known":   {&fleetOf{unknown: true}, "BACKEND_UNREACHABLE"},
			"too many":     {&fleetOf{list: endpointsUpTo(257)}, "FAN_OUT_TOO_WIDE"},
			"a panic":      {&fleetOf{list: endpointsUpTo(3), panics: "h001:1"}, fanOutFailed},
			"a panic here": {&fleetOf{list: endpointsUpTo(1), panics: "h000:1"}, fanOutFailed},
		} {
			call, _ := newTestFanOut(t, tc.f, nil)
			p, err := call()
			if failure := describe(err); failure == nil || failure.Reason != tc.reason || len(p.messages) > 0 {
				t.Errorf("%s: %v, %q", name, err, p.messages)
			}
		}
	})
}

// Where calls may take as long as they like, endpoints that nobody tells of are
// not waited for so long.
func TestFanOutWithoutALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, out := newTestFanOut(t, &fleetOf{unknown: true}, nil)
		out.timeout = 0
		start := time.Now()
		err := out.handle(t.Context(), newTestCall(out.route, &askingPeer{request: "hello"}))
		if failure := describe(err); failure == nil || failure.Reason != "BACKEND_UNREACHABLE" || time.Since(start) != discoveryWait {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestFanOutLogsBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, out := newTestFanOut(t, &fleetOf{list: endpointsUpTo(2)}, nil)
		out.route.LogBodies = true
		c := newTestCall(out.route, &askingPeer{request: "hello"})
		if err := out.handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if request, response := c.traffic.bodies(); string(request) != "hello" || string(response) != "h000:1h001:1" {
			t.Errorf("%q, %q", request, response)
		}
	})
}

// A call that succeeds although one endpoint's part of it panicked leaves the
// stack in the log.
func TestFanOutLogsPanics(t *testing.T) {
	t.Parallel()
	for require, failed := range map[string]bool{"any": false, "all": true} {
		synctest.Test(t, func(t *testing.T) {
			_, out := newTestFanOut(t, &fleetOf{list: endpointsUpTo(3), panics: "h001:1"}, func(c *config.FanOut) { c.Require = require })
			g, text, _ := newTestGateway(verifyFunc(valid))
			out.log = g.log
			err := g.pipeline(out.route, out.handle)(t.Context(), newTestCall(out.route, &askingPeer{request: "hello"}))
			if (err != nil) != failed || strings.Count(text.String(), "panic while serving a call") != 1 {
				t.Errorf("%s: %v, log: %s", require, err, text)
			}
		})
	}
}
