package routes

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rpcgate/rpcgate/config"
)

const stockProto = `syntax = "proto3";
package stock;
import "google/api/annotations.proto";
service Stock {
  rpc Get(Item) returns (Item) { option idempotency_level = NO_SIDE_EFFECTS; option (google.api.http) = { get: "/v1/stock/{id}" }; }
  rpc Put(Item) returns (Item) { option idempotency_level = IDEMPOTENT; }
  rpc Add(Item) returns (Item) { option (google.api.http) = { post: "/v1/stock" body: "*" }; }
  rpc Watch(Item) returns (stream Item);
  rpc Fill(stream Item) returns (Item);
}
message Item { int64 id = 1; Result result = 2; string shelf = 3; repeated string tags = 4; }
message Result { Code code = 1; }
enum Code { OK = 0; EMPTY = 1; GONE = 2; }
`

func stock(tb testing.TB) *Descriptors { return stockOf(tb, stockProto) }

func stockOf(tb testing.TB, text string) *Descriptors {
	tb.Helper()
	return compileText(tb, map[string]string{"stock.proto": text}, "stock.proto")
}

func on(codes ...string) []string { return codes }

func mustBuild(t *testing.T, in []Input, explicit ...config.Route) *Table {
	t.Helper()
	table, err := Build(in, explicit)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func grpcRoute(t *testing.T, table *Table, method string) *Route {
	t.Helper()
	r, err := table.MatchGRPC("/stock.Stock/" + method)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func routeAt(t *testing.T, table *Table, method, path string) *Route {
	t.Helper()
	var m Match
	if err := table.MatchHTTP(method, path, &m); err != nil {
		t.Fatal(err)
	}
	return m.Route
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	table := mustBuild(t, []Input{{backendNamed("a"), stock(t)}},
		config.Route{Method: "stock.Stock/Watch", Idempotent: true, MaxAttempts: 5, Priority: "high"},
		config.Route{Method: "stock.Stock/Add", HTTP: &config.HTTPRule{Post: "/x", Body: "*"}, IdempotencyKey: true})
	for method, want := range map[string][2]bool{ // idempotent, without side effects
		"Get": {true, true}, "Put": {true, false}, "Add": {false, false}, "Watch": {true, false}, "Fill": {false, false},
	} {
		r := grpcRoute(t, table, method)
		if r.Idempotent != want[0] || r.NoSideEffects != want[1] {
			t.Errorf("%s: idempotent %v, without side effects %v", method, r.Idempotent, r.NoSideEffects)
		}
	}
	if r := grpcRoute(t, table, "Watch"); r.MaxAttempts != 5 || r.Priority != "high" {
		t.Errorf("Watch: %d attempts, priority %s", r.MaxAttempts, r.Priority)
	}
	if r := grpcRoute(t, table, "Add"); r.IdempotencyKey || r.Priority != "normal" {
		t.Error("the method has the policy of one HTTP route")
	}
	if !routeAt(t, table, "POST", "/x").IdempotencyKey || routeAt(t, table, "POST", "/v1/stock").IdempotencyKey {
		t.Error("the policy is not that of the one HTTP route")
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	table := mustBuild(t, []Input{{backendNamed("a"), stock(t)}}, config.Route{
		Method: "stock.Stock/Get", Outcome: &config.Outcome{Field: "result.code", OK: []string{"OK", "2"}, Breaker: true},
	})
	o := grpcRoute(t, table, "Get").Outcome
	if o == nil || !o.Breaker || routeAt(t, table, "GET", "/v1/stock/1").Outcome != o {
		t.Fatalf("outcome %+v", o)
	}
	result := func(code uint64) []byte {
		inner := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), code)
		return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), inner)
	}
	for name, tc := range map[string]struct {
		msg  []byte
		want bool
	}{
		"absent": {nil, true}, "zero": {result(0), true}, "by number": {result(2), true}, "another": {result(1), false},
		"the last counts": {append(result(1), result(0)...), true}, "no message": {[]byte{0xff}, false},
	} {
		if got := o.Success(tc.msg); got != tc.want {
			t.Errorf("%s: success %v, want %v", name, got, tc.want)
		}
	}
}

func TestFallbacks(t *testing.T) {
	t.Parallel()
	main, spare := backendNamed("main"), backendNamed("spare")
	// The spare backend describes the same in other words.
	in := []Input{{main, stock(t)}, {spare, stockOf(t, strings.Replace(stockProto, "message Item", "// An item.\nmessage Item", 1))}}
	table := mustBuild(t, in,
		config.Route{Method: "stock.Stock/Get", Backend: "main", Fallback: &config.Fallback{On: on("UNAVAILABLE"), Backend: "spare"}},
		config.Route{Method: "stock.Stock/Put", Backend: "main", Fallback: &config.Fallback{On: on("INTERNAL"), LastGood: &config.LastGood{Entries: 1}}},
		config.Route{Method: "stock.Stock/Add", Backend: "main", Fallback: &config.Fallback{On: on("UNAVAILABLE"), Response: `{"id": "7"}`}},
	)
	get, put, add := grpcRoute(t, table, "Get"), grpcRoute(t, table, "Put"), grpcRoute(t, table, "Add")
	if get.Fallback.Backend != "spare" || !get.Fallback.For(codes.Unavailable) || get.Fallback.For(codes.Internal) || get.Fallback.For(99) {
		t.Errorf("Get: %+v", get.Fallback)
	}
	if put.Fallback.LastGood == nil || !put.Fallback.For(codes.Internal) {
		t.Errorf("Put: %+v", put.Fallback)
	}
	if string(add.Fallback.Response) != "\x08\x07" {
		t.Errorf("Add: % x", add.Fallback.Response)
	}
	// Methods that no route speaks of are the main backend's.
	for _, r := range table.Routes() {
		if r.Backend != "main" {
			t.Errorf("%s is backend %s's", r, r.Backend)
		}
	}

	// An empty message is a response.
	table = mustBuild(t, in[:1], config.Route{Method: "stock.Stock/Add", Fallback: &config.Fallback{On: on("UNAVAILABLE"), Response: `{}`}})
	if grpcRoute(t, table, "Add").Fallback.Response == nil {
		t.Error("an empty response is none")
	}

	// A backend that is not known yet is no fault, and no fallback.
	pending := slices.Clone(in)
	pending[1].Descriptors = nil
	table = mustBuild(t, pending, config.Route{Method: "stock.Stock/Get", Backend: "main", Fallback: &config.Fallback{On: on("UNAVAILABLE"), Backend: "spare"}})
	if grpcRoute(t, table, "Get").Fallback != nil || len(table.Warnings()) != 1 {
		t.Errorf("a fallback to a backend that is not known; warnings %q", table.Warnings())
	}
}

func TestFanOutPolicy(t *testing.T) {
	t.Parallel()
	a := backendNamed("a")
	a.Canary = []config.Canary{{Match: config.Match{"version": "2"}}}
	a.Balancer.HashField = "id"
	table := mustBuild(t, []Input{{a, stock(t)}},
		config.Route{Method: "stock.Stock/Add", Fallback: &config.Fallback{On: on("UNAVAILABLE"), Response: `{}`}},
		config.Route{Method: "stock.Stock/Add", To: "all", HTTP: &config.HTTPRule{Post: "/all", Body: "*"}},
		config.Route{Method: "stock.Stock/Add", To: "all", FanOut: &config.FanOut{Require: "any"}, HTTP: &config.HTTPRule{Post: "/any", Body: "*"}},
	)
	one, all, anyOf := grpcRoute(t, table, "Add"), routeAt(t, table, "POST", "/all"), routeAt(t, table, "POST", "/any")
	if one.FanOut != nil || one.Fallback == nil || len(one.Canary) != 1 || one.HashField == nil {
		t.Errorf("the method's own route: %+v", one)
	}
	if all.FanOut == nil || *all.FanOut != config.DefaultFanOut() || all.Fallback != nil || all.Canary != nil || all.HashField != nil {
		t.Errorf("the route to all: %+v", all)
	}
	if anyOf.FanOut.Require != "any" {
		t.Errorf("require %q", anyOf.FanOut.Require)
	}
	if r := grpcRoute(t, table, "Fill"); r.HashField != nil {
		t.Error("a field of a caller's stream is hashed")
	}
	// A route's canaries take the place of its backend's.
	table = mustBuild(t, []Input{{a, stock(t)}}, config.Route{Method: "stock.Stock/Get", Canary: []config.Canary{{Match: config.Match{"zone": "x"}}, {Match: config.Match{"zone": "y"}}}})
	if r := grpcRoute(t, table, "Get"); len(r.Canary) != 2 {
		t.Errorf("canaries %v", r.Canary)
	}
}

func TestPolicyFaults(t *testing.T) {
	t.Parallel()
	route := func(method string, change func(*config.Route)) config.Route {
		r := config.Route{Method: "stock.Stock/" + method, Backend: "main"}
		change(&r)
		return r
	}
	fallback := func(f config.Fallback) func(*config.Route) {
		f.On = on("UNAVAILABLE")
		return func(r *config.Route) { r.Fallback = &f }
	}
	outcome := func(field string, ok ...string) func(*config.Route) {
		return func(r *config.Route) { r.Outcome = &config.Outcome{Field: field, OK: ok} }
	}
	all := func(r *config.Route) { r.To = "all" }
	spare := func(replace, with string) *Descriptors {
		return stockOf(t, strings.ReplaceAll(stockProto, replace, with))
	}
	for name, tc := range map[string]struct {
		spare  *Descriptors
		routes []config.Route
		want   string
	}{
		"a response that is none":    {nil, []config.Route{route("Get", fallback(config.Fallback{Response: `{"ident": 1}`}))}, `routes[0].fallback.response: stock.Stock/Get: is no stock.Item: ident`},
		"a response that is no JSON": {nil, []config.Route{route("Get", fallback(config.Fallback{Response: `{`}))}, `routes[0].fallback.response: stock.Stock/Get: is no stock.Item`},
		"last good, not idempotent":  {nil, []config.Route{route("Add", fallback(config.Fallback{LastGood: &config.LastGood{}}))}, `routes[0].fallback.last_good: stock.Stock/Add: answers a call without making it`},
		"another service":            {orders(t), []config.Route{route("Get", fallback(config.Fallback{Backend: "spare"}))}, "routes[0].fallback.backend: stock.Stock/Get: backend spare does not serve stock.Stock/Get"},
		"another type":               {spare("string shelf", "bytes shelf"), []config.Route{route("Get", fallback(config.Fallback{Backend: "spare"}))}, "backend spare has another stock.Item than backend main"},
		"another enum, deep inside":  {spare("GONE", "LOST"), []config.Route{route("Get", fallback(config.Fallback{Backend: "spare"}))}, "backend spare has another stock.Code than backend main"},
		"a stream's fallback":        {nil, []config.Route{route("Watch", fallback(config.Fallback{Response: "{}"}))}, "routes[0].fallback: stock.Stock/Watch: is for methods that do not stream"},
		"a stream's outcome":         {nil, []config.Route{route("Fill", outcome("id", "0"))}, "routes[0].outcome: stock.Stock/Fill: is for methods that do not stream"},
		"a stream to all":            {nil, []config.Route{route("Fill", all)}, "routes[0].to: stock.Stock/Fill: is for methods that do not stream"},
		"an outcome's field":         {nil, []config.Route{route("Get", outcome("result.kode", "0"))}, `routes[0].outcome.field: stock.Stock/Get: message stock.Result has no field "kode"`},
		"an outcome's value":         {nil, []config.Route{route("Get", outcome("result.code", "OK", "FULL"))}, `routes[0].outcome.ok[1]: stock.Stock/Get: "FULL" is neither a name nor a number of enum stock.Code`},
		"one policy under the other's": {nil, []config.Route{
			route("Add", all),
			route("Add", func(r *config.Route) { r.HTTP = &config.HTTPRule{Post: "/x", Body: "*"}; outcome("id", "0")(r) }),
		}, "routes[1]: stock.Stock/Add: has policies for calls that go to one endpoint"},
		"a policy over a more general one": {nil, []config.Route{
			{Method: "stock.Stock/Add", To: "all"},
			route("Add", func(r *config.Route) { r.MaxAttempts = 2 }),
		}, "routes[1]: stock.Stock/Add: has policies for calls that go to one endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			in := []Input{{backendNamed("main"), stock(t)}}
			if tc.spare != nil {
				in = append(in, Input{backendNamed("spare"), tc.spare})
			}
			table, err := Build(in, tc.routes)
			if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
			// The rest is served.
			if r := grpcRoute(t, table, "Get"); r.Fallback != nil || r.Outcome != nil {
				t.Errorf("a faulty policy is in force: %+v", r)
			}
		})
	}
	b := backendNamed("main")
	b.Endpoints, b.Target = nil, "xds:///main"
	if _, err := Build([]Input{{b, stock(t)}}, []config.Route{route("Add", all)}); err == nil || !strings.Contains(err.Error(), "routes[0].to: stock.Stock/Add: all are not known where xDS") {
		t.Errorf("all of endpoints that are not told: %v", err)
	}
	b = backendNamed("main")
	b.Balancer.HashField = "tags"
	if _, err := Build([]Input{{b, stock(t)}}, nil); err == nil || !strings.Contains(err.Error(), "backends[0].balancer.hash_field: no request of backend main has a field tags") {
		t.Errorf("a field that cannot be hashed: %v", err)
	}
}
