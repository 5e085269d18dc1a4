package routes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

func TestMatchHTTP(t *testing.T) {
	table, err := Build([]Input{{backendNamed("users"), shop(t)}, {backendNamed("orders"), orders(t)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		method, path string
		want         string // the route
		vars         []string
		err          error
	}{
		{"GET", "/v1/users/7", "GET /v1/users/{id}", []string{"7"}, nil},
		{"HEAD", "/v1/users/7", "GET /v1/users/{id}", []string{"7"}, nil},
		{"GET", "/v1/people/a%2Fb", "GET /v1/{name=people/*}", []string{"people/a/b"}, nil},
		{"GET", "/v1/orders/%2523", "GET /v1/orders/{id}", []string{"%23"}, nil},
		{"POST", "/v1/users", "POST /v1/users", nil, nil},
		{"PUT", "/v1/users", "", nil, &MethodNotAllowedError{Allow: []string{"OPTIONS", "POST"}}},
		{"OPTIONS", "/v1/orders/1", "", nil, &MethodNotAllowedError{Allow: []string{"GET", "HEAD", "OPTIONS", "PUT"}}},
		{"GET", "/v2", "", nil, &NotFoundError{}},
		{"GET", "/shop.UserService/GetUser", "", nil, &NotFoundError{}},
	}
	var m Match
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			err := table.MatchHTTP(tt.method, tt.path, &m)
			if fmt.Sprintf("%T: %v", err, err) != fmt.Sprintf("%T: %v", tt.err, tt.err) {
				t.Fatalf("got %v, want %v", err, tt.err)
			}
			if tt.err != nil {
				if m.Route != nil {
					t.Error("a route is left in the match")
				}
				return
			}
			if m.Route.String() != tt.want || !slices.Equal(m.Vars, tt.vars) {
				t.Errorf("got %s %q", m.Route, m.Vars)
			}
		})
	}
	for _, path := range []string{"", "*", "/v1/%zz", "/%"} {
		var bad *BadPathError
		if err := table.MatchHTTP("GET", path, &m); !errors.As(err, &bad) || !strings.Contains(err.Error(), "malformed path") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestMatchStream(t *testing.T) {
	d := compileText(t, map[string]string{"a.proto": `syntax = "proto3"; package a; message M { string id = 1; }
		service A { rpc Unary(M) returns (M); rpc Up(stream M) returns (M); rpc Down(M) returns (stream M); rpc Both(stream M) returns (stream M); }`}, "a.proto")
	table, err := Build([]Input{{backendNamed("a"), d}}, []config.Route{
		{Method: "a.A/Down", HTTP: &config.HTTPRule{Get: "/down/{id}"}},
		{Method: "a.A/Both", HTTP: &config.HTTPRule{Post: "/down/{id}"}},
		{Method: "a.A/Both", HTTP: &config.HTTPRule{Put: "/both/{id}"}},
		{Method: "a.A/Up", HTTP: &config.HTTPRule{Post: "/both/{id}"}},
		{Method: "a.A/Unary", HTTP: &config.HTTPRule{Delete: "/both/{id}"}},
		{Method: "a.A/Unary", HTTP: &config.HTTPRule{Post: "/unary"}},
		{Method: "a.A/Unary", HTTP: &config.HTTPRule{Put: "/put"}},
		{Method: "a.A/Unary", HTTP: &config.HTTPRule{Get: "/mixed"}},
		{Method: "a.A/Both", HTTP: &config.HTTPRule{Patch: "/mixed"}},
		{Method: "a.A/Both", HTTP: &config.HTTPRule{Custom: &config.CustomRule{Kind: "*", Path: "/any"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var m Match
	for _, tt := range []struct {
		path, want string
		vars       []string
		err        error
	}{
		{"/down/1", "GET /down/{id}", []string{"1"}, nil},
		{"/both/2", "POST /both/{id}", []string{"2"}, nil},
		{"/mixed", "GET /mixed", nil, nil}, // GET's, though another streams
		{"/any", "* /any", nil, nil},
		{"/unary", "POST /unary", nil, nil},
		{"/put", "", nil, &MethodNotAllowedError{Allow: []string{"OPTIONS", "PUT"}}},
		{"/none", "", nil, &NotFoundError{}},
		{"/%", "", nil, &BadPathError{}},
	} {
		err := table.MatchStream(tt.path, &m)
		if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", tt.err) {
			t.Errorf("%s: got %v, want %T", tt.path, err, tt.err)
			continue
		}
		if tt.err != nil {
			if m.Route != nil {
				t.Errorf("%s: a route is left in the match", tt.path)
			}
			continue
		}
		if m.Route.String() != tt.want || !slices.Equal(m.Vars, tt.vars) {
			t.Errorf("%s: got %s %q", tt.path, m.Route, m.Vars)
		}
	}
}

func TestMatchGRPC(t *testing.T) {
	table, err := Build([]Input{{backendNamed("users"), shop(t)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := table.MatchGRPC("/shop.UserService/Upload"); err != nil || !r.ClientStreams {
		t.Errorf("%v, %v", r, err)
	}
	for _, name := range []string{"", "/", "shop.UserService/Upload", "/shop.UserService/Upload/", "/grpc.health.v1.Health/Check"} {
		var notFound *NotFoundError
		if r, err := table.MatchGRPC(name); !errors.As(err, &notFound) {
			t.Errorf("%q: %v, %v", name, r, err)
		}
	}
}

func TestCheckRoutes(t *testing.T) {
	routes := []config.Route{
		{Method: "a.B/C", Auth: "none"},
		{Method: "a.B/C", HTTP: &config.HTTPRule{Get: "/a/{x}", AdditionalBindings: []config.HTTPRule{{Post: "/a/**/**"}}}},
		{Method: "a.B/C", HTTP: &config.HTTPRule{Get: "/a", Put: "/a"}},
		{Method: "a.B/D", HTTP: &config.HTTPRule{Get: "/a/{y=*}"}},
		{Method: "a.B/D", HTTP: &config.HTTPRule{Custom: &config.CustomRule{Path: "/a"}}},
	}
	want := []string{
		`routes[1].http.additional_bindings[0].post: path template "/a/**/**", column 7`,
		"routes[2].http: has get and put: only one",
		"routes[3].http.get: GET /a/{y=*} conflicts with routes[1].http.get, GET /a/{x}: both match GET /a/b",
		`routes[4].http.custom.path: "" is not an HTTP method`,
	}
	err := CheckRoutes(routes)
	if err == nil {
		t.Fatal("no error")
	}
	got := strings.Split(err.Error(), "\n")
	if len(got) != len(want) {
		t.Fatalf("got\n%v", err)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %s\nwant %s", got[i], want[i])
		}
	}
	if err := CheckRoutes(routes[:1]); err != nil {
		t.Error(err)
	}
	if err := CheckRoutes(routes[1:2]); err == nil || !strings.HasPrefix(err.Error(), "routes[0].http.additional_bindings[0].post: ") {
		t.Error(err)
	}
}

// manyRoutes is a table with n services of one annotated method each.
func manyRoutes(b *testing.B, n int) *Table {
	b.Helper()
	var text strings.Builder
	text.WriteString("syntax = \"proto3\"; package many; import \"google/api/annotations.proto\"; message M { string id = 1; string sub = 2; }\nservice S {\n")
	for i := range n {
		fmt.Fprintf(&text, "rpc M%d(M) returns (M) { option (google.api.http) = { get: \"/v1/things%d/{id}/parts/{sub=**}\" }; }\n", i, i)
	}
	text.WriteString("}\n")
	d := compileText(b, map[string]string{"many.proto": text.String()}, "many.proto")
	table, err := Build([]Input{{backendNamed("many"), d}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return table
}

func BenchmarkMatchHTTP(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		table := manyRoutes(b, n)
		for _, bench := range []struct{ name, path string }{
			{"hit", "/v1/things7/12345/parts/a/b"},
			{"miss", "/v1/things7/12345/none"},
			{"escaped", "/v1/things7/12%2F45/parts/a/b"},
		} {
			b.Run(fmt.Sprintf("%s/routes=%d", bench.name, n), func(b *testing.B) {
				var m Match
				b.ReportAllocs()
				for b.Loop() {
					if err := table.MatchHTTP("GET", bench.path, &m); (err == nil) == (bench.name == "miss") {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("grpc/routes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := table.MatchGRPC("/many.S/M7"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
