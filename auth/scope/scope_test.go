package scope_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/auth/scope"
)

func rpc(method string) scope.Target { return scope.Target{Method: method} }

func http(verb, path string) scope.Target {
	return scope.Target{Method: "shop.OrderService/GetOrder", Verb: verb, Path: path}
}

func TestAllows(t *testing.T) {
	for _, tc := range []struct {
		scope   string
		allowed []scope.Target
		refused []scope.Target
	}{
		{"*", []scope.Target{rpc("a/B"), rpc("shop.OrderService/GetOrder"), http("GET", "/")}, nil},
		{
			"shop.OrderService/GetOrder",
			[]scope.Target{rpc("shop.OrderService/GetOrder"), http("GET", "/v1/orders/{id}"), http("*", "/x")},
			[]scope.Target{
				rpc("shop.OrderService/GetOrders"), rpc("shop.OrderService/getOrder"), rpc("shop.OrderService/"),
				rpc("shop.OrderService.GetOrder"), rpc(""), rpc("x.shop.OrderService/GetOrder"),
			},
		},
		{
			"shop.OrderService/*",
			[]scope.Target{rpc("shop.OrderService/GetOrder"), rpc("shop.OrderService/X")},
			[]scope.Target{rpc("shop.OrderServiceV2/X"), rpc("shop.v1.OrderService/X"), rpc("shop/OrderService"), rpc("OrderService/X")},
		},
		{
			"shop.OrderService/Get*",
			[]scope.Target{rpc("shop.OrderService/GetOrder"), rpc("shop.OrderService/Get")},
			[]scope.Target{rpc("shop.OrderService/ListOrders"), rpc("shop.OrderService/get"), rpc("shop.OrderService/TryGet")},
		},
		{
			"shop.*/*",
			[]scope.Target{rpc("shop.OrderService/X"), rpc("shop.UserService/Y")},
			[]scope.Target{rpc("shop.v1.OrderService/X"), rpc("shop/X"), rpc("shopper.OrderService/X")},
		},
		{
			"shop.**/*",
			[]scope.Target{rpc("shop.OrderService/X"), rpc("shop.v1.OrderService/X"), rpc("shop.a.b.c/X"), rpc("shop/X")},
			[]scope.Target{rpc("shopper.OrderService/X"), rpc("x.shop.OrderService/X")},
		},
		{"**/Get*", []scope.Target{rpc("a/Get"), rpc("a.b.c/GetX")}, []scope.Target{rpc("a/List")}},
		{"shop.v*.Order*/*", []scope.Target{rpc("shop.v1.Orders/X"), rpc("shop.v.Order/X")}, []scope.Target{rpc("shop.v1.User/X"), rpc("shop.v1.x.Order/X")}},
		{
			"GET /v1/**",
			[]scope.Target{http("GET", "/v1"), http("GET", "/v1/orders"), http("GET", "/v1/orders/{id}:cancel"), http("GET", "/v1/{name=**}")},
			[]scope.Target{http("POST", "/v1/orders"), http("*", "/v1/orders"), http("GET", "/v2/orders"), http("GET", "/"), http("GET", "/{x}"), http("GET", "/v1:x"), rpc("v1/x")},
		},
		{
			"* /v1/orders/*",
			[]scope.Target{
				http("GET", "/v1/orders/{id}"), http("*", "/v1/orders/{id}"), http("DELETE", "/v1/orders/export"),
				http("GET", "/v1/orders/*"), http("POST", "/v1/orders/{id}:cancel"), http("GET", "/v1/{name=orders/*}"),
				http("GET", "/v1/{name=orders/x}:verb"), http("GET", "/{a=v1}/{b=orders/*}"),
			},
			[]scope.Target{
				http("GET", "/v1/orders"), http("GET", "/v1/orders/{id}/items"), http("GET", "/v1/orders/{id=**}"),
				http("GET", "/v1/{kind}/{id}"), http("GET", "/v1/orders/**"), http("GET", "/v1/{name=orders/*/x}"),
			},
		},
		{
			"GET /v1/orders/{id}",
			[]scope.Target{http("GET", "/v1/orders/{id}")},
			[]scope.Target{
				http("GET", "/v1/orders/{key}"), http("GET", "/v1/orders/export"), http("GET", "/v1/orders/{id}:cancel"),
				http("GET", "/v1/orders/{id}/x"), http("GET", "/v1/orders/*"), http("GET", "/v1/orders/{id=**}"),
			},
		},
		{
			"POST /v1/{name=shelves/*}/books:merge",
			[]scope.Target{http("POST", "/v1/{name=shelves/*}/books:merge")},
			[]scope.Target{http("POST", "/v1/{name=shelves/*}/books"), http("POST", "/v1/shelves/*/books:merge"), http("POST", "/v1/{name=shelves/*/books:merge}")},
		},
		{"POST /v1/orders/{id}:cancel", []scope.Target{http("POST", "/v1/orders/{id}:cancel")}, []scope.Target{http("POST", "/v1/orders/{id}"), http("POST", "/v1/orders/{id}:cancelAll")}},
		{
			"GET /v1/order*",
			[]scope.Target{http("GET", "/v1/order"), http("GET", "/v1/orders"), http("GET", "/v1/orders:batchGet"), http("GET", "/v1/{x=orders}")},
			[]scope.Target{http("GET", "/v1/{orders}"), http("GET", "/v1/*"), http("GET", "/v1/order/x"), http("GET", "/v1/{x=orders}:verb")},
		},
		{"GET /", []scope.Target{http("GET", "/")}, []scope.Target{http("GET", "/x"), http("GET", "/{x}"), http("GET", "/**")}},
		{"GET /**", []scope.Target{http("GET", "/"), http("GET", "/{x}"), http("GET", "/**"), http("GET", "/a/b:c")}, []scope.Target{http("PUT", "/"), rpc("GET/x")}},
		{"GET /a%2Fb", []scope.Target{http("GET", "/a%2Fb")}, []scope.Target{http("GET", "/a/b"), http("GET", "/a%2fb")}},
	} {
		set, err := scope.Compile([]string{tc.scope})
		if err != nil {
			t.Errorf("%s: %v", tc.scope, err)
			continue
		}
		for _, target := range tc.allowed {
			if !set.Allows(target) {
				t.Errorf("%s does not allow %+v", tc.scope, target)
			}
		}
		for _, target := range tc.refused {
			if set.Allows(target) {
				t.Errorf("%s allows %+v", tc.scope, target)
			}
		}
	}
}

func TestNoScopesAllowEverything(t *testing.T) {
	set, err := scope.Compile(nil)
	if err != nil || !set.Allows(rpc("a.B/C")) || !set.Allows(http("GET", "/x")) {
		t.Errorf("Compile(nil) = %v, %v", set, err)
	}
}

func TestOneOfSeveralScopesIsEnough(t *testing.T) {
	set, err := scope.Compile([]string{"a.B/C", "shop.**/Get*", "PUT /v2/**"})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []scope.Target{rpc("a.B/C"), rpc("shop.v1.X/GetY"), {Method: "x.Y/Z", Verb: "PUT", Path: "/v2/x"}} {
		if !set.Allows(target) {
			t.Errorf("%+v is refused", target)
		}
	}
	if set.Allows(scope.Target{Method: "x.Y/Z", Verb: "GET", Path: "/v2/x"}) {
		t.Error("a verb that no scope has is allowed")
	}
}

func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		scope  string
		column int
		reason string
	}{
		{"", 1, "empty"},
		{"**", 3, `expected / after **`},
		{"shop", 5, "a method is missing"},
		{"shop.OrderService", 18, "a method is missing"},
		{"shop.OrderService/", 19, "expected a name or *, found the end"},
		{"/shop.OrderService/Get", 1, "needs a verb"},
		{"shop.OrderService/**", 19, "write *, not **"},
		{"shop.OrderService/Get*All", 23, `unexpected 'A' after the method`},
		{"shop.OrderService/*Order", 20, `unexpected 'O' after the method`},
		{"shop..OrderService/X", 6, `expected a name or *, found '.'`},
		{"shop.**.OrderService/X", 8, `expected / after **, found '.'`},
		{"shop.v**/X", 8, "unexpected '*'"},
		{"shop.1/X", 6, `found '1'`},
		{"shop.Ö/X", 6, `found 'Ö'`},
		{"a/b/c", 4, `unexpected '/' after the method`},
		{"get /v1", 1, "a verb in capitals"},
		{" /v1", 1, "a verb in capitals"},
		{"GET  /v1", 5, "a path, which begins with /, found ' '"},
		{"GET v1", 5, "a path"},
		{"GET", 4, "a method is missing"},
		{"GET ", 5, "found the end"},
		{"GETx /v1", 4, "a space after the verb"},
		{"GET /v1/", 9, "expected a segment, found the end"},
		{"GET /v1//x", 9, "expected a segment, found '/'"},
		{"GET /v1/**/x", 11, "nothing can follow it"},
		{"GET /v1/*x", 10, "a segment ends at /"},
		{"GET /v1/x*y", 11, "a segment ends at /"},
		{"GET /v1/***", 11, "nothing can follow it"},
		{"GET /v1/{id", 9, "never closed"},
		{"GET /v1/{i d}", 11, "unexpected ' ' in a variable"},
		{"GET /v1/{id}x", 13, "a segment ends at /"},
		{"GET /v1/x{id}", 10, "a segment ends at /"},
		{"GET /v1/a,b", 10, "comma"},
		{"GET /v1/a%2", 10, "two hex digits"},
		{"GET /v1/a?b", 10, "unexpected '?'"},
		{"GET /v1/\x00", 9, `found '\x00'`},
	} {
		_, err := scope.Compile([]string{"a.B/C", tc.scope})
		at := fmt.Sprintf("column %d:", tc.column)
		if err == nil || !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%q: %v; want %s %s", tc.scope, err, at, tc.reason)
		}
	}
}

func TestBounds(t *testing.T) {
	many := make([]string, scope.MaxScopes+1)
	for i := range many {
		many[i] = "a.B/C"
	}
	if _, err := scope.Compile(many); err == nil {
		t.Errorf("%d scopes are taken", len(many))
	}
	if _, err := scope.Compile(many[1:]); err != nil {
		t.Error(err)
	}
	if _, err := scope.Compile([]string{"a.B/" + strings.Repeat("x", scope.MaxLength)}); err == nil || len(err.Error()) > 100 {
		t.Errorf("a scope that is too long: %v", err)
	}
}

func TestAllowsAllocatesNothing(t *testing.T) {
	set := benchSet(t)
	for _, target := range benchTargets() {
		if n := testing.AllocsPerRun(100, func() { set.Allows(target) }); n != 0 {
			t.Errorf("%+v: %v allocations", target, n)
		}
	}
}

func benchSet(tb testing.TB) *scope.Set {
	tb.Helper()
	list := []string{"shop.OrderService/GetOrder", "shop.UserService/Get*", "other.**/*", "GET /v1/**", "POST /v1/{name=shelves/*}/books:merge"}
	for i := range 32 {
		list = append(list, fmt.Sprintf("pkg%d.Service/*", i))
	}
	set, err := scope.Compile(list)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func benchTargets() map[string]scope.Target {
	return map[string]scope.Target{
		"exact method":    rpc("shop.OrderService/GetOrder"),
		"wildcard method": rpc("pkg31.Service/GetOrder"),
		"route":           {Method: "x.Y/Z", Verb: "GET", Path: "/v1/{name=shelves/*/books/*}"},
		"refused":         {Method: "x.Y/Z", Verb: "PUT", Path: "/v1/{name=shelves/*/books/*}"},
	}
}

func BenchmarkAllows(b *testing.B) {
	set := benchSet(b)
	for name, target := range benchTargets() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				set.Allows(target)
			}
		})
	}
}

func TestIntersect(t *testing.T) {
	for _, tc := range []struct{ a, b, want string }{
		{"", "", "*"},
		{"", "a.B/C", "a.B/C"},
		{"*", "GET /v1/**", "GET /v1/**"},
		{"a.*/*", "a.B/Get*", "a.B/Get*"},
		{"a.*/Get*", "a.B/*", "a.B/Get*"},
		{"a.**/*", "a.B/C, b.B/C, a.*/D", "a.B/C, a.*/D"},
		{"a.B*/C*", "a.Book/*, a.B/Create, x.B/C", "a.Book/C*, a.B/Create"},
		{"a.**/*", "a/C", "a/C"},
		{"a.B/C", "a.B/D", ""},
		{"GET /v1/**", "* /v1/orders/{id}, PUT /v1/x", "GET /v1/orders/{id}"},
		{"* /v1/*", "* /v1/{id}, * /v1/{name=a/b}, GET /v1/x*, GET /v1", "* /v1/{id}, GET /v1/x*"},
		{"a.B/C", "GET /v1/**", ""},
	} {
		list := func(text string) []string {
			if text == "" {
				return nil
			}
			return strings.Split(text, ", ")
		}
		for _, order := range [][2]string{{tc.a, tc.b}, {tc.b, tc.a}} {
			got, err := scope.Intersect(list(order[0]), list(order[1]))
			if text := strings.Join(got, ", "); err != nil || text != tc.want {
				t.Errorf("Intersect(%q, %q) = %q, %v; want %q", order[0], order[1], text, err, tc.want)
			}
		}
	}
	if _, err := scope.Intersect([]string{"a.B/C"}, []string{"a"}); err == nil {
		t.Error("a scope that is none is taken")
	}
}
