package gateway

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

const policyProto = `syntax = "proto3"; package test;
	service Echo { rpc Unary(X) returns (X) { option idempotency_level = IDEMPOTENT; } }
	message X { string text = 1; int32 code = 2; }`

// policyRoute is the gRPC route of a method with a policy, as the table has it.
func policyRoute(t *testing.T, explicit config.Route, change func(*config.Backend)) *routes.Route {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.proto"), []byte(policyProto), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := routes.CompileProto(t.Context(), config.ProtoSources{Files: []string{"x.proto"}, ImportPaths: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	main := config.DefaultBackend("main")
	if change != nil {
		change(&main)
	}
	explicit.Method, explicit.Backend = "test.Echo/Unary", "main"
	table, err := routes.Build([]routes.Input{
		{Backend: main, Descriptors: files}, {Backend: config.DefaultBackend("spare"), Descriptors: files},
	}, []config.Route{explicit})
	if err != nil {
		t.Fatal(err)
	}
	r, err := table.MatchGRPC("/test.Echo/Unary")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func withCodes(f config.Fallback, on ...string) config.Fallback {
	f.On = on
	return f
}

func fallbackRoute(t *testing.T, f config.Fallback) *routes.Route {
	t.Helper()
	return policyRoute(t, config.Route{Fallback: &f}, nil)
}

func answered2(code codes.Code, text string) error {
	return &rpcproxy.StatusError{Status: status.New(code, text)}
}

// counterSum is the sum of a counter's series.
func counterSum(t *testing.T, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// requestOf is what a call with the metadata goes out as.
func requestOf(t *testing.T, r *routes.Route, md metadata.MD) rpcproxy.Request {
	t.Helper()
	g, _, _ := newTestGateway(verifyFunc(valid))
	var got rpcproxy.Request
	h := g.pipeline(r, forwardTo(g, r, forwardFunc(func(_ context.Context, r *rpcproxy.Request, _ rpcproxy.Exchange) error {
		got = *r
		return nil
	})))
	c := newTestCall(r, silentPeer{})
	c.Metadata = md
	if err := h(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRequestsHavePolicies(t *testing.T) {
	t.Parallel()
	r := policyRoute(t, config.Route{MaxAttempts: 4}, nil)
	if got := requestOf(t, r, nil); !got.Idempotent || got.NoSideEffects || got.MaxAttempts != 4 || got.Filter != nil || got.Judge != nil || got.HashOf != nil {
		t.Errorf("request %+v", got)
	}
	r = policyRoute(t, config.Route{IdempotencyKey: true}, nil)
	r.Idempotent = false // the method says that it is
	if requestOf(t, r, nil).Idempotent || requestOf(t, r, metadata.MD{"idempotency-key": {""}}).Idempotent || !requestOf(t, r, metadata.MD{"idempotency-key": {"k"}}).Idempotent {
		t.Error("a call may be repeated if and only if it has an Idempotency-Key")
	}
	message := func(text string) mem.BufferSlice {
		return mem.BufferSlice{mem.SliceBuffer(text[:1]), mem.SliceBuffer(text[1:])} // in pieces
	}
	r = policyRoute(t, config.Route{Outcome: &config.Outcome{Field: "code", OK: []string{"0", "3"}, Breaker: true}}, func(b *config.Backend) {
		b.Balancer.HashField = "text"
	})
	got := requestOf(t, r, nil)
	if !got.JudgeCounts || !got.Judge(message("\x10\x03")) || got.Judge(message("\x10\x01")) {
		t.Error("the outcome is not read")
	}
	if key := got.HashOf(message("\n\x03abc")); key != "abc" {
		t.Errorf("hash key %q", key)
	}
	if key := got.HashOf(message("\x10\x01")); key != "" {
		t.Errorf("hash key %q without the field", key)
	}
}

func TestCanariesChoose(t *testing.T) {
	t.Parallel()
	f := newKeptOver(nil).filters
	c := f.canaries([]config.Canary{
		{Match: config.Match{"version": "2"}, Header: "x-canary", Value: "yes", Percent: 100},
		{Match: config.Match{"version": "3"}, Percent: 25},
	})
	second, third := c.list[0].filter, c.list[1].filter
	if c.choose(metadata.MD{"x-canary": {"no", "yes"}}) != second {
		t.Error("the header does not lead to the canary")
	}
	const calls = 20_000
	seen := map[*fleet.Filter]int{}
	for range calls {
		seen[c.choose(metadata.MD{"x-canary": {"no"}})]++
	}
	// Six standard deviations to either side.
	share, off := float64(seen[third])/calls, 6*math.Sqrt(.25*.75/calls)
	if math.Abs(share-.25) > off || seen[second] != 0 || seen[c.rest] != calls-seen[third] || c.rest == nil {
		t.Errorf("a share of %v, want 0.25; %v", share, seen)
	}
	// One filter for one rule, in the next snapshot too.
	before := newKeptOver(nil)
	one := before.filters.canaries([]config.Canary{{Match: config.Match{"a": "1", "b": "2"}}})
	before.settle()
	after := newKeptOver(before)
	two := after.filters.canaries([]config.Canary{{Match: config.Match{"b": "2", "a": "1"}}})
	after.settle()
	if one.list[0].filter != two.list[0].filter || one.rest != two.rest || one.rest == one.list[0].filter {
		t.Error("the same rule has two filters")
	}
	if len(newKeptOver(after).filters.made) != 0 {
		t.Error("filters are never let go of")
	}
	var none *canaries
	if none.choose(nil) != nil {
		t.Error("a filter without canaries")
	}
}

func TestCallsTellHowTheyWent(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]string{
		"off": "map[by:[main]]", "attempts": "map[by:[main] x-rpcgate-attempts:[2]]",
		"endpoint": "map[by:[main] x-rpcgate-attempts:[2] x-rpcgate-endpoint:[main:1]]",
	} {
		r := testRoute()
		g, text, reg := newTestGateway(verifyFunc(valid))
		g.cfg.CallInfo = info
		p := &askingPeer{request: "x"}
		main := &backendThat{name: "main", attempts: 2, failed: true}
		h := g.pipeline(r, forwardTo(g, r, main))
		if err := h(t.Context(), newTestCall(r, p)); err != nil {
			t.Fatal(err)
		}
		if got := shownMD(p.header); got != want || shownMD(p.trailer) != "map[end:[main]]" {
			t.Errorf("%s: header %s, want %s; trailer %v", info, got, want, p.trailer)
		}
		for _, part := range []string{`"attempts":2`, `"endpoint":"main:1"`, `"outcome":"failed"`} {
			if !containsFold(text.String(), part) {
				t.Errorf("%s: the log has no %s: %s", info, part, text)
			}
		}
		if n := counterSum(t, reg, "rpcgate_business_failures_total"); n != 1 {
			t.Errorf("%v business failures", n)
		}
	}
}

// shownMD shows what metadata.MD's own String hides.
func shownMD(md metadata.MD) string { return fmt.Sprint(map[string][]string(md)) }
