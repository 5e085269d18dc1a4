package gateway

import (
	"context"
	"net/netip"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/scope"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

func mustCompile(tb testing.TB, list ...string) *scope.Set {
	tb.Helper()
	set, err := scope.Compile(list)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func mustPrefixes(tb testing.TB, list ...string) []netip.Prefix {
	tb.Helper()
	all := make([]netip.Prefix, len(list))
	for i, text := range list {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

func TestScopesDecideByMethodAndTemplate(t *testing.T) {
	overHTTP := &routes.Route{Backend: "shop", HTTPMethod: "GET", Template: "/v1/users/{id}", FullMethod: "/shop.UserService/GetUser", Label: "/v1/users/{id}"}
	overRPC := &routes.Route{Backend: "shop", FullMethod: "/shop.UserService/GetUser", Label: "/shop.UserService/GetUser"}
	anyVerb := &routes.Route{Backend: "shop", HTTPMethod: "*", Template: "/v1/users/{id}", FullMethod: "/shop.UserService/GetUser", Label: "/v1/users/{id}"}
	open := &routes.Route{Backend: "shop", FullMethod: "/shop.UserService/GetUser", Label: "/shop.UserService/GetUser", AuthNone: true}
	for name, tc := range map[string]struct {
		app, token *scope.Set
		route      *routes.Route
		allowed    bool
	}{
		"no scopes":                            {nil, nil, overHTTP, true},
		"the app's alone":                      {mustCompile(t, "shop.UserService/*"), nil, overRPC, true},
		"the token's alone":                    {nil, mustCompile(t, "shop.UserService/Get*"), overHTTP, true},
		"both":                                 {mustCompile(t, "GET /v1/**"), mustCompile(t, "shop.*/*"), overHTTP, true},
		"the token's are wider than the app's": {mustCompile(t, "shop.OrderService/*"), mustCompile(t, "*"), overHTTP, false},
		"the token's are narrower":             {mustCompile(t, "*"), mustCompile(t, "shop.OrderService/*"), overHTTP, false},
		"a path's scope, over RPC":             {mustCompile(t, "GET /v1/**"), nil, overRPC, false},
		"a verb's scope, on a route of all":    {mustCompile(t, "GET /v1/**"), nil, anyVerb, false},
		"all verbs":                            {mustCompile(t, "* /v1/**"), nil, anyVerb, true},
		"a route without credentials":          {mustCompile(t, "x.Y/Z"), nil, open, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, _, reg := newTestGateway(verifyFunc(func(auth.Credential) (*auth.Principal, error) {
				return &auth.Principal{App: "acme", TokenID: "t1", AppScopes: tc.app, TokenScopes: tc.token}, nil
			}))
			forwarded := false
			backend := forwardFunc(func(context.Context, *rpcproxy.Request, rpcproxy.Exchange) error {
				forwarded = true
				return nil
			})
			c := newTestCall(tc.route, silentPeer{})
			err := g.pipeline(tc.route, forwardTo(g, tc.route, backend))(t.Context(), c)
			if forwarded != tc.allowed {
				t.Fatalf("forwarded: %t, want %t (%v)", forwarded, tc.allowed, err)
			}
			if counterSum(t, reg, "rpcgate_calls_total") != 1 {
				t.Error("the call is not counted")
			}
			if tc.allowed {
				return
			}
			s := describe(err).Status()
			info, ok := s.Details()[0].(*errdetails.ErrorInfo)
			if s.Code() != codes.PermissionDenied || !ok || info.GetReason() != "SCOPE_MISSING" ||
				info.GetMetadata()["scope"] != "shop.UserService/GetUser" || !containsFold(s.Message(), "shop.userservice/getuser") {
				t.Errorf("got %v", s.Proto())
			}
		})
	}
}

func TestSourceNetworks(t *testing.T) {
	for _, tc := range []struct {
		ip      string
		allowed bool
	}{
		{"192.0.2.7", true}, {"192.0.3.7", false}, {"::ffff:192.0.2.7", true}, {"2001:db8::1", true}, {"2001:db9::1", false},
		{"", false}, {"@", false},
	} {
		g, _, _ := newTestGateway(verifyFunc(func(auth.Credential) (*auth.Principal, error) {
			return &auth.Principal{App: "acme", Networks: mustPrefixes(t, "192.0.2.0/24", "2001:db8::/32")}, nil
		}))
		forwarded := false
		r := testRoute()
		c := newTestCall(r, silentPeer{})
		c.ClientIP = tc.ip
		err := g.pipeline(r, forwardTo(g, r, forwardFunc(func(context.Context, *rpcproxy.Request, rpcproxy.Exchange) error {
			forwarded = true
			return nil
		})))(t.Context(), c)
		if forwarded != tc.allowed || !tc.allowed && describe(err).Reason != "SOURCE_NOT_ALLOWED" {
			t.Errorf("from %q: forwarded %t, %v", tc.ip, forwarded, err)
		}
	}
}

func TestAuthorizeAllocatesNothing(t *testing.T) {
	r := &routes.Route{HTTPMethod: "GET", Template: "/v1/users/{id}", FullMethod: "/shop.UserService/GetUser"}
	h := authorize(r)(func(context.Context, *Call) error { return nil })
	c := &Call{Principal: &auth.Principal{App: "acme", AppScopes: mustCompile(t, "GET /v1/**", "x.Y/Z"), TokenScopes: mustCompile(t, "shop.*/Get*")}}
	if n := testing.AllocsPerRun(100, func() {
		if err := h(t.Context(), c); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
