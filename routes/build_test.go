package routes

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

const ordersProto = `syntax = "proto3";
package shop;
import "google/api/annotations.proto";
service OrderService {
  rpc GetOrder(Order) returns (Order) { option (google.api.http) = { get: "/v1/orders/{id}" }; }
  rpc PutOrder(Order) returns (Order) { option (google.api.http) = { put: "/v1/orders/{id}" body: "*" }; }
}
message Order { int64 id = 1; string product = 2; }
`

func orders(tb testing.TB) *Descriptors {
	tb.Helper()
	return compileText(tb, map[string]string{"shop/order.proto": ordersProto}, "shop/order.proto")
}

func backendNamed(name string) config.Backend {
	return config.Backend{Name: name, Annotations: true, Timeout: 2 * time.Second}
}

func TestBuild(t *testing.T) {
	users := backendNamed("users")
	users.DefaultBinding = true
	table, err := Build([]Input{{users, shop(t)}, {backendNamed("orders"), orders(t)}}, []config.Route{
		{Method: "shop.UserService/Watch", HTTP: &config.HTTPRule{Get: "/v1/users/{id}:watch"}},
		// The same way in as the annotation's, and in its place.
		{Method: "shop.OrderService/PutOrder", HTTP: &config.HTTPRule{Put: "/v1/orders/{id}", Body: "product"}},
		{Method: "shop.OrderService/GetOrder", HTTP: &config.HTTPRule{
			Custom:             &config.CustomRule{Kind: "*", Path: "/any/{id}"},
			AdditionalBindings: []config.HTTPRule{{Delete: "/v1/orders/{id}", ResponseBody: "product"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, r := range table.Routes() {
		if r.Index != i {
			t.Errorf("%s has index %d, stands at %d", r, r.Index, i)
		}
		if r.Transcoder == nil {
			t.Errorf("%s: no transcoder", r)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s [%s]", r.Source, r.Backend, r.FullMethod, r.Label, r.Origin))
	}
	want := []string{
		"annotation users /shop.UserService/CreateUser /v1/users [shop/shop.proto: shop.UserService/CreateUser]",
		"default users /shop.UserService/CreateUser /shop.UserService/CreateUser [shop/shop.proto: shop.UserService/CreateUser]",
		"grpc users /shop.UserService/CreateUser /shop.UserService/CreateUser [shop/shop.proto: shop.UserService/CreateUser]",
		"annotation users /shop.UserService/GetUser /v1/users/{id} [shop/shop.proto: shop.UserService/GetUser]",
		"annotation users /shop.UserService/GetUser /v1/{name=people/*} [shop/shop.proto: shop.UserService/GetUser]",
		"default users /shop.UserService/GetUser /shop.UserService/GetUser [shop/shop.proto: shop.UserService/GetUser]",
		"grpc users /shop.UserService/GetUser /shop.UserService/GetUser [shop/shop.proto: shop.UserService/GetUser]",
		"annotation users /shop.UserService/Upload /v1/users:upload [shop/shop.proto: shop.UserService/Upload]",
		"default users /shop.UserService/Upload /shop.UserService/Upload [shop/shop.proto: shop.UserService/Upload]",
		"grpc users /shop.UserService/Upload /shop.UserService/Upload [shop/shop.proto: shop.UserService/Upload]",
		"config users /shop.UserService/Watch /v1/users/{id}:watch [routes[0].http.get]",
		"default users /shop.UserService/Watch /shop.UserService/Watch [shop/shop.proto: shop.UserService/Watch]",
		"grpc users /shop.UserService/Watch /shop.UserService/Watch [shop/shop.proto: shop.UserService/Watch]",
		"config orders /shop.OrderService/GetOrder /any/{id} [routes[2].http.custom.path]",
		"config orders /shop.OrderService/GetOrder /v1/orders/{id} [routes[2].http.additional_bindings[0].delete]",
		"annotation orders /shop.OrderService/GetOrder /v1/orders/{id} [shop/order.proto: shop.OrderService/GetOrder]",
		"grpc orders /shop.OrderService/GetOrder /shop.OrderService/GetOrder [shop/order.proto: shop.OrderService/GetOrder]",
		"config orders /shop.OrderService/PutOrder /v1/orders/{id} [routes[1].http.put]",
		"grpc orders /shop.OrderService/PutOrder /shop.OrderService/PutOrder [shop/order.proto: shop.OrderService/PutOrder]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if w := table.Warnings(); len(w) != 0 {
		t.Errorf("warnings: %q", w)
	}
	if table.Descriptors("users") == nil || table.Descriptors("none") != nil {
		t.Error("descriptors by backend")
	}
}

func TestBuildFaults(t *testing.T) {
	withServices := func(services ...string) config.Backend {
		b := backendNamed("users")
		b.Services = services
		return b
	}
	tests := []struct {
		name   string
		in     []Input
		routes []config.Route
		want   []string // in order, each a part of one fault
	}{
		{
			"a conflict names both, their sources and a path",
			[]Input{{backendNamed("users"), shop(t)}, {backendNamed("orders"), orders(t)}},
			[]config.Route{{Method: "shop.OrderService/GetOrder", HTTP: &config.HTTPRule{Get: "/v1/users/{product}"}}},
			[]string{"GET /v1/users/{id} of backend users (annotation, shop/shop.proto: shop.UserService/GetUser) conflicts with " +
				"GET /v1/users/{product} of backend orders (config, routes[0].http.get): both match GET /v1/users/c"},
		},
		{
			"one config route twice",
			[]Input{{backendNamed("orders"), orders(t)}},
			[]config.Route{
				{Method: "shop.OrderService/GetOrder", HTTP: &config.HTTPRule{Get: "/x"}},
				{Method: "shop.OrderService/GetOrder", HTTP: &config.HTTPRule{Get: "/x"}},
			},
			[]string{"routes[1].http.get: GET /x of backend orders (config, routes[1].http.get) conflicts with GET /x of backend orders (config, routes[0].http.get)"},
		},
		{
			"two backends serve a method",
			[]Input{{backendNamed("a"), orders(t)}, {backendNamed("b"), orders(t)}},
			nil,
			[]string{"shop.OrderService: GetOrder, PutOrder is served by backends a and b: name the backend"},
		},
		{
			"two backends serve a method of a route without backend",
			[]Input{{backendNamed("a"), orders(t)}, {backendNamed("b"), orders(t)}},
			[]config.Route{
				{Method: "shop.OrderService/GetOrder", Backend: "b", Auth: "none"},
				{Method: "shop.OrderService/PutOrder", Auth: "none"},
			},
			[]string{"routes[1]: shop.OrderService/PutOrder: is served by backends a and b", "shop.OrderService: PutOrder is served by"},
		},
		{
			"unknown names",
			[]Input{{withServices("shop.UserServce"), shop(t)}, {backendNamed("orders"), orders(t)}},
			[]config.Route{
				{Method: "shop.OrderService/GetOrdr"},
				{Method: "shop.OrdrService/GetOrder"},
				{Method: "shop.OrderService/GetOrder", Backend: "order"},
				{Method: "shop.OrderService/Nothing", Backend: "orders"},
			},
			[]string{
				"backends[0].services[0]: backend users does not serve shop.UserServce; did you mean shop.UserService?",
				"routes[0].method: no backend serves shop.OrderService/GetOrdr; did you mean shop.OrderService/GetOrder?",
				"routes[1].method: no backend serves shop.OrdrService; did you mean shop.OrderService?",
				"routes[2].backend: shop.OrderService/GetOrder: there is no backend order; did you mean orders?",
				"routes[3].method: backend orders does not serve shop.OrderService/Nothing",
			},
		},
		{
			"method_timeouts of an unknown method",
			[]Input{{func() config.Backend {
				b := backendNamed("orders")
				b.MethodTimeouts = map[string]time.Duration{"shop.OrderService/GetOrders": time.Second}
				return b
			}(), orders(t)}},
			nil,
			[]string{"backends[0].method_timeouts: backend orders does not serve shop.OrderService/GetOrders; did you mean shop.OrderService/GetOrder?"},
		},
		{
			"bindings that don't fit",
			[]Input{{backendNamed("users"), shop(t)}},
			[]config.Route{
				{Method: "shop.UserService/CreateUser", HTTP: &config.HTTPRule{Post: "/a/{nome}"}},
				{Method: "shop.UserService/CreateUser", HTTP: &config.HTTPRule{Post: "/b", Body: "usr"}},
				{Method: "shop.UserService/CreateUser", HTTP: &config.HTTPRule{Post: "/c", ResponseBody: "nope"}},
				{Method: "shop.UserService/CreateUser", HTTP: &config.HTTPRule{Post: "/d/{id"}},
				{Method: "shop.UserService/Upload", HTTP: &config.HTTPRule{Post: "/e/{id=*}", Body: "id.x"}},
				{Method: "shop.UserService/GetUser", HTTP: &config.HTTPRule{Get: "/f", Body: "*"}},
				{Method: "shop.UserService/GetUser", HTTP: &config.HTTPRule{}},
			},
			[]string{
				"routes[0].http.post: POST /a/{nome}", `routes[1].http.post: POST /b`, "routes[2].http.post: POST /c",
				`routes[3].http.post: path template "/d/{id", column 4`, "routes[4].http.post: POST /e/{id=*}",
				"routes[5].http.get: GET has no body", "routes[6].http: needs a path template",
			},
		},
		{
			"annotations that don't fit",
			[]Input{{backendNamed("x"), compileText(t, map[string]string{"x.proto": `syntax = "proto3"; package x; import "google/api/annotations.proto";
				service X {
				  rpc A(M) returns (M) { option (google.api.http) = { get: "/a/" }; }
				  rpc B(M) returns (M) { option (google.api.http) = { body: "*" }; }
				  rpc C(M) returns (M) { option (google.api.http) = { custom: { kind: "A B" path: "/c" } additional_bindings { get: "/{a=b" } }; }
				  rpc D(M) returns (M) { option (google.api.http) = { get: "/d" additional_bindings { get: "/e" additional_bindings { get: "/f" } } }; }
				}
				message M {}`}, "x.proto")}},
			nil,
			[]string{
				"backend x, x.proto: x.X/A: google.api.http: path template", "x.X/B: google.api.http: has no HTTP method",
				`x.X/C: google.api.http: "A B" is not an HTTP method`, "x.X/C: google.api.http, additional binding 1: path template",
				"x.X/D: google.api.http, additional binding 1: has additional bindings of its own",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, err := Build(tt.in, tt.routes)
			if table == nil {
				t.Fatal("no table")
			}
			var got []error
			if joined, ok := err.(interface{ Unwrap() []error }); ok {
				got = joined.Unwrap()
			}
			if len(got) != len(tt.want) {
				t.Fatalf("%d faults, want %d:\n%v", len(got), len(tt.want), err)
			}
			for i, want := range tt.want {
				var f *Fault
				if !errors.As(got[i], &f) || !strings.Contains(got[i].Error(), want) {
					t.Errorf("got  %v\nwant %s", got[i], want)
				}
			}
		})
	}
}

// Without the types of its messages a method is there for gRPC callers with
// protobuf only.
func TestMissingTypes(t *testing.T) {
	whole := compileText(t, map[string]string{
		"a.proto":   `syntax = "proto3"; package a; import "dep.proto"; service A { rpc M(Y) returns (Y); rpc N(Z) returns (Z); } message Y { dep.X x = 1; } message Z {}`,
		"dep.proto": `syntax = "proto3"; package dep; message X {}`,
	}, "a.proto")
	d, err := LoadProtoset([]string{protoset(t, filesOf(t, whole, "dep.proto")...)})
	if err != nil {
		t.Fatal(err)
	}
	b := backendNamed("b")
	b.DefaultBinding = true
	table, err := Build([]Input{{b, d}}, nil)
	if err == nil || !strings.Contains(err.Error(), "a.Y needs the type dep.X, which is not among the descriptors") {
		t.Errorf("got %v", err)
	}
	var got []string
	for _, r := range table.Routes() {
		got = append(got, r.String())
	}
	if want := []string{"/a.A/M", "POST /a.A/N", "/a.A/N"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if r, err := table.MatchGRPC("/a.A/M"); err != nil || r.Transcoder != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if w := table.Warnings(); !slices.ContainsFunc(w, func(s string) bool { return strings.Contains(s, "a.A/M: callers") }) {
		t.Errorf("warnings %q", w)
	}
}

func TestConflictKeepsTheFirst(t *testing.T) {
	table, err := Build([]Input{{backendNamed("a"), orders(t)}, {backendNamed("b"), orders(t)}}, nil)
	if err == nil {
		t.Fatal("no fault")
	}
	for _, r := range table.Routes() {
		if r.Backend != "a" {
			t.Errorf("%s of backend %s", r, r.Backend)
		}
	}
}

func TestMethodOfTwoBackends(t *testing.T) {
	const get, put = "shop.OrderService/GetOrder", "shop.OrderService/PutOrder"
	in := []Input{{backendNamed("a"), orders(t)}, {backendNamed("b"), orders(t)}}
	table, err := Build(in, []config.Route{
		{Method: get, Backend: "b", HTTP: &config.HTTPRule{Get: "/b/{id}"}}, // named alone
		{Method: put, Backend: "a", HTTP: &config.HTTPRule{Put: "/a/{id}"}},
		{Method: put, Backend: "b", HTTP: &config.HTTPRule{Put: "/b/{id}"}},
		{Method: put, Backend: "b", Auth: "required"}, // decides between the two before
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range table.Routes() {
		got = append(got, r.Backend+" "+r.String())
	}
	want := []string{
		"a PUT /a/{id}", "b GET /b/{id}", "b GET /v1/orders/{id}", "b /" + get,
		"b PUT /b/{id}", "b PUT /v1/orders/{id}", "b /" + put,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestPolicy(t *testing.T) {
	const get, put = "shop.OrderService/GetOrder", "shop.OrderService/PutOrder"
	type policyOf struct {
		authNone  bool
		timeout   time.Duration
		logBodies bool
	}
	none := backendNamed("b")
	none.Auth = "none"
	limited := backendNamed("b")
	limited.MethodTimeouts = map[string]time.Duration{get: 7 * time.Second, put: 0}
	tests := []struct {
		name     string
		backend  config.Backend
		routes   []config.Route
		get, put policyOf // of the annotation's route and the gRPC route
	}{
		{"backend", backendNamed("b"), nil, policyOf{timeout: 2 * time.Second}, policyOf{timeout: 2 * time.Second}},
		{"backend without auth", none, nil, policyOf{true, 2 * time.Second, false}, policyOf{true, 2 * time.Second, false}},
		{"method_timeouts", limited, nil, policyOf{timeout: 7 * time.Second}, policyOf{}},
		{
			"route over backend", none,
			[]config.Route{{Method: get, Auth: "required", Timeout: time.Minute, LogBodies: true}},
			policyOf{false, time.Minute, true},
			policyOf{true, 2 * time.Second, false},
		},
		{"route over method_timeouts", limited, []config.Route{{Method: get, Timeout: time.Minute}}, policyOf{timeout: time.Minute}, policyOf{}},
		{
			"route that names the backend over one that doesn't", backendNamed("b"),
			[]config.Route{{Method: get, Backend: "b", Timeout: time.Minute}, {Method: get, Auth: "none", Timeout: time.Hour}},
			policyOf{true, time.Minute, false},
			policyOf{timeout: 2 * time.Second},
		},
		{
			"a route with a rule is for its own binding", backendNamed("b"),
			[]config.Route{{Method: get, Auth: "none", HTTP: &config.HTTPRule{Get: "/open/{id}"}}},
			policyOf{timeout: 2 * time.Second},
			policyOf{timeout: 2 * time.Second},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, err := Build([]Input{{tt.backend, orders(t)}}, tt.routes)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range table.Routes() {
				want := tt.get
				if r.FullMethod == "/"+put {
					want = tt.put
				}
				if r.Source == SourceConfig {
					want = policyOf{true, 2 * time.Second, false} // the last case's
				}
				if got := (policyOf{r.AuthNone, r.Timeout, r.LogBodies}); got != want {
					t.Errorf("%s (%s): got %+v, want %+v", r, r.Source, got, want)
				}
			}
		})
	}
}

// What a backend says of forms, errors and headers, and what config routes add.
func TestPolicyOfHeadersAndBodies(t *testing.T) {
	const get, put = "shop.OrderService/GetOrder", "shop.OrderService/PutOrder"
	b := backendNamed("b")
	b.Errors = "problem"
	b.Headers.Request.Deny = []string{"of-backend"}
	b.Headers.Response.Deny = []string{"back"}
	deny := func(name string) config.Headers {
		return config.Headers{Request: config.HeaderRules{Deny: []string{name}}}
	}
	table, err := Build([]Input{{b, orders(t)}}, []config.Route{
		{Method: get, Backend: "b", Headers: deny("of-named")},
		{Method: get, Headers: deny("of-method")},
		{Method: get, Headers: deny("of-rule"), Forms: true, HTTP: &config.HTTPRule{Post: "/x", Body: "*"}},
		{Method: put, Forms: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	type found struct {
		forms   bool
		request []string
	}
	got := make(map[string]found)
	for _, r := range table.Routes() {
		f := found{forms: r.Forms}
		for _, h := range r.RequestHeaders {
			f.request = append(f.request, h.Deny...)
		}
		got[r.String()] = f
		if r.Errors != "problem" || len(r.ResponseHeaders) != 1 || r.ResponseHeaders[0].Deny[0] != "back" {
			t.Errorf("%s: errors %q, response headers %v", r, r.Errors, r.ResponseHeaders)
		}
	}
	want := map[string]found{
		"GET /v1/orders/{id}": {false, []string{"of-backend", "of-method", "of-named"}},
		"POST /x":             {true, []string{"of-backend", "of-method", "of-named", "of-rule"}},
		"/" + get:             {false, []string{"of-backend", "of-method", "of-named"}},
		"PUT /v1/orders/{id}": {true, []string{"of-backend"}},
		"/" + put:             {true, []string{"of-backend"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	b = backendNamed("b")
	b.Forms = true
	if table, err = Build([]Input{{b, orders(t)}}, nil); err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Routes() {
		if !r.Forms || r.RequestHeaders != nil || r.ResponseHeaders != nil || r.Errors != "" {
			t.Errorf("%s: %+v", r, r)
		}
	}
}

func TestNoSideEffects(t *testing.T) {
	d := compileText(t, map[string]string{"a.proto": `syntax = "proto3"; package a; message M {}
		service A {
		  rpc Read(M) returns (M) { option idempotency_level = NO_SIDE_EFFECTS; }
		  rpc Put(M) returns (M) { option idempotency_level = IDEMPOTENT; }
		  rpc Do(M) returns (M);
		}`}, "a.proto")
	table, err := Build([]Input{{backendNamed("b"), d}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Routes() {
		if r.NoSideEffects != (r.FullMethod == "/a.A/Read") {
			t.Errorf("%s: %v", r, r.NoSideEffects)
		}
	}
}

func TestStreamTimeout(t *testing.T) {
	b := backendNamed("b")
	b.StreamTimeout = time.Hour
	table, err := Build([]Input{{b, shop(t)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := table.MatchGRPC("/shop.UserService/Watch")
	if err != nil || r.Timeout != time.Hour || !r.ServerStreams || r.ClientStreams {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestServices(t *testing.T) {
	d := compileText(t, map[string]string{
		"health.proto": `syntax = "proto3"; package grpc.health.v1; service Health { rpc Check(M) returns (M); } message M {}`,
		"shop.proto":   shopProto,
	}, "health.proto", "shop.proto")
	for _, tt := range []struct{ services, want []string }{
		{nil, []string{"shop.UserService"}},
		{[]string{"grpc.health.v1.Health"}, []string{"grpc.health.v1.Health"}},
	} {
		b := backendNamed("b")
		b.Services = tt.services
		table, err := Build([]Input{{b, d}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for name := range table.Registry().GetServiceInfo() {
			got = append(got, name)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: routed %q, want %q", tt.services, got, tt.want)
		}
	}
}

func TestPending(t *testing.T) {
	in := []Input{{backendNamed("users"), nil}, {backendNamed("orders"), orders(t)}}
	routes := []config.Route{
		{Method: "shop.UserService/GetUser", HTTP: &config.HTTPRule{Get: "/u/{id}"}},
		{Method: "shop.UserService/GetUser", Backend: "users", Auth: "none"},
	}
	table, err := Build(in, routes)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(table.Pending(), []string{"users"}) {
		t.Errorf("pending %v", table.Pending())
	}
	var m Match
	err = table.MatchHTTP("GET", "/u/1", &m)
	if want := (&NotFoundError{Pending: []string{"users"}}); !reflect.DeepEqual(err, want) {
		t.Errorf("got %v", err)
	}
	if _, err = table.MatchGRPC("/shop.UserService/GetUser"); !reflect.DeepEqual(err, &NotFoundError{Pending: []string{"users"}}) {
		t.Errorf("got %v", err)
	}
	in[0].Descriptors = shop(t)
	if table, err = Build(in, routes); err != nil {
		t.Fatal(err)
	}
	if err := table.MatchHTTP("GET", "/u/1", &m); err != nil || m.Route.Origin != "routes[0].http.get" {
		t.Error(err)
	}
	if err := table.MatchHTTP("GET", "/x", &m); !reflect.DeepEqual(err, &NotFoundError{}) {
		t.Errorf("got %v", err)
	}
	// A backend that is there can't have been meant by a wrong name.
	in[0].Descriptors = nil
	if _, err := Build(in, []config.Route{{Method: "shop.OrderService/No", Backend: "orders"}}); err == nil {
		t.Error("no fault")
	}
}
