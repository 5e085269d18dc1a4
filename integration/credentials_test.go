package integration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

const unaryEcho = "/testbackend.Echo/Unary"

// A credential works in each of its forms, and is passed on as zRPC has it.
func TestCredentialForms(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	sawCredential := func(t *testing.T) {
		t.Helper()
		md := only(t, b).Metadata
		wantMetadata(t, md, "app", r.app)
		wantMetadata(t, md, "token", r.token)
		for _, key := range []string{"authorization", "x-app", "x-token", "grpcgateway-authorization"} {
			wantMetadata(t, md, key)
		}
	}
	for name, header := range map[string][]string{
		"Bearer":  {"Authorization", r.bearer()},
		"Basic":   {"Authorization", basic(r.app, r.token)},
		"headers": {"X-App", r.app, "X-Token", r.token},
	} {
		t.Run(name, func(t *testing.T) {
			r.do(t, r.http1, "GET", "/v1/echo?text=hi", "", header...).ok(t, "")
			sawCredential(t)
			r.do(t, r.http2, "GET", "/v1/echo?text=hi", "", header...).ok(t, "")
			sawCredential(t)
		})
	}
	for name, md := range map[string]metadata.MD{
		"metadata":      metadata.Pairs("app", r.app, "token", r.token),
		"authorization": metadata.Pairs("authorization", r.bearer()),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := invoke(metadata.NewOutgoingContext(limited(t), md), r.conn, unaryEcho, nil); err != nil {
				t.Fatal(err)
			}
			sawCredential(t)
		})
	}
}

func wantMetadata(t testing.TB, md metadata.MD, key string, want ...string) {
	t.Helper()
	if got := md.Get(key); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the backend saw %s: %q, want %q", key, got, want)
	}
}

// What is no credential, or not a valid one, is refused over both protocols, and
// nothing of the call reaches the backend.
func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	other := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "other"}).Secret
	expired := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: r.app, TTL: 2 * time.Second})
	revoked := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: r.app})
	withStore(t, r.redis.Addr, func(ctx context.Context, s *tenant.Store) error { return s.Revoke(ctx, r.app, revoked.ID) })
	// The gateway has seen this one when it was valid.
	r.do(t, r.http1, "GET", "/v1/echo", "", "X-App", r.app, "X-Token", expired.Secret).ok(t, "")
	b.Take()
	gatewaytest.Eventually(t, func() error {
		if wait := time.Until(expired.Expires); wait > 0 {
			return fmt.Errorf("the token expires in %v", wait)
		}
		return nil
	})
	bearer := func(app, token string) string { return "Bearer " + app + "." + token }

	for _, tc := range []struct {
		name, reason string
		header       []string // HTTP
		md           []string // gRPC; nil: the header's
	}{
		{"missing", "CREDENTIAL_MISSING", nil, nil},
		{"unknown app", "TOKEN_INVALID", []string{"X-App", "nobody", "X-Token", r.token}, []string{"app", "nobody", "token", r.token}},
		{"another app's token", "TOKEN_INVALID", []string{"X-App", r.app, "X-Token", other}, []string{"app", r.app, "token", other}},
		{"expired", "TOKEN_EXPIRED", []string{"Authorization", bearer(r.app, expired.Secret)}, nil},
		{"revoked", "TOKEN_REVOKED", []string{"Authorization", bearer(r.app, revoked.Secret)}, nil},
		{"no token", "CREDENTIAL_MALFORMED", []string{"X-App", r.app}, []string{"app", r.app}},
		{"no app", "CREDENTIAL_MALFORMED", []string{"X-Token", r.token}, []string{"token", r.token}},
		{"empty token", "CREDENTIAL_MALFORMED", []string{"X-App", r.app, "X-Token", ""}, []string{"app", r.app, "token", ""}},
		{"empty authorization", "CREDENTIAL_MALFORMED", []string{"Authorization", ""}, nil},
		{"bearer without app", "CREDENTIAL_MALFORMED", []string{"Authorization", "Bearer " + r.token}, nil},
		{"other scheme", "CREDENTIAL_MALFORMED", []string{"Authorization", "Digest " + r.app + "." + r.token}, nil},
		{"basic, no base64", "CREDENTIAL_MALFORMED", []string{"Authorization", "Basic !!!"}, nil},
		{"one character more", "TOKEN_INVALID", []string{"Authorization", r.bearer() + "x"}, nil},
		{"one character less", "TOKEN_INVALID", []string{"Authorization", r.bearer()[:len(r.bearer())-1]}, nil},
		{"a space more", "CREDENTIAL_MALFORMED", []string{"Authorization", "Bearer  " + r.app + "." + r.token}, nil},
		{"long", "CREDENTIAL_MALFORMED", []string{"Authorization", bearer(r.app, strings.Repeat("a", 5000))}, nil},
		{"twice", "CREDENTIAL_MALFORMED", []string{"X-App", r.app, "X-App", r.app, "X-Token", r.token}, []string{"app", r.app, "app", r.app, "token", r.token}},
		{"authorization twice", "CREDENTIAL_MALFORMED", []string{"Authorization", r.bearer(), "Authorization", r.bearer()}, nil},
		{
			"two forms", "CREDENTIAL_MALFORMED",
			[]string{"Authorization", r.bearer(), "X-App", r.app, "X-Token", r.token},
			[]string{"authorization", r.bearer(), "app", r.app, "token", r.token},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := r.do(t, r.http1, "POST", "/v1/echo", `{"text":"hi"}`, tc.header...)
			a.failed(t, 401, codes.Unauthenticated, tc.reason)
			if a.Header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
			r.do(t, r.http2, "GET", "/v1/echo:stream", "", tc.header...).failed(t, 401, codes.Unauthenticated, tc.reason)
			md := tc.md
			if md == nil {
				md = tc.header
			}
			ctx := metadata.NewOutgoingContext(limited(t), metadata.Pairs(md...))
			_, err := invoke(ctx, r.conn, unaryEcho, nil)
			grpcFailed(t, err, codes.Unauthenticated, tc.reason)
			_, err = rawStream(t, ctx, r.conn, "/testbackend.Echo/Bidi").recv()
			grpcFailed(t, err, codes.Unauthenticated, tc.reason)
			untouched(t, b)
		})
	}
	if out := r.Output(); strings.Contains(out, r.token) || strings.Contains(out, expired.Secret) {
		t.Error("a token is in the log")
	}
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
}

// auth: none lets calls through without a credential, and whatever is sent as
// one is neither looked at nor passed on.
func TestRoutesWithoutAuth(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", `
routes:
  - method: testbackend.Echo/Unary
    auth: none
`)
	check := func() {
		t.Helper()
		md := only(t, b).Metadata
		for _, key := range auth.CredentialHeaders() {
			wantMetadata(t, md, key)
		}
	}
	r.do(t, r.http1, "GET", "/v1/echo", "").ok(t, "")
	check()
	r.do(t, r.http1, "GET", "/v1/echo", "", "Authorization", "Bearer acme.made-up", "Grpc-Metadata-App", "evil").ok(t, "")
	check()
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
	check()
	if _, err := invoke(metadata.AppendToOutgoingContext(limited(t), "app", "a", "token", "b"), r.conn, unaryEcho, nil); err != nil {
		t.Fatal(err)
	}
	check()
	r.do(t, r.http1, "GET", "/admin/x", "").failed(t, 401, codes.Unauthenticated, "CREDENTIAL_MISSING")
	_, err := invoke(limited(t), r.conn, "/testbackend.Echo/ServerStream", nil)
	grpcFailed(t, err, codes.Unauthenticated, "CREDENTIAL_MISSING")
	untouched(t, b)
}

// The caller's own app and token never stand beside the verified ones, however
// they are smuggled in.
func TestCallersCredentialsDoNotPass(t *testing.T) {
	t.Parallel()
	for _, pool := range []string{"credential", "app", "shared"} {
		t.Run(pool, func(t *testing.T) {
			t.Parallel()
			r, b := newEchoRig(t, "pool: {key: "+pool+"}", "")
			r.call(t, "GET", "/v1/echo", "", "Grpc-Metadata-App", "evil", "Grpc-Metadata-Token", "evil",
				"Grpc-Metadata-Authorization", "evil", "Grpc-Metadata-X-App", "evil",
				"Grpc-Metadata-Grpcgateway-Authorization", "evil").ok(t, "")
			ctx := metadata.AppendToOutgoingContext(metadata.NewOutgoingContext(limited(t), metadata.Pairs("authorization", r.bearer())),
				"grpcgateway-authorization", "evil")
			if _, err := invoke(ctx, r.conn, unaryEcho, nil); err != nil {
				t.Fatal(err)
			}
			calls := b.Take()
			if len(calls) != 2 {
				t.Fatalf("%d calls", len(calls))
			}
			for _, c := range calls {
				wantMetadata(t, c.Metadata, "app", r.app)
				wantMetadata(t, c.Metadata, "token", r.token)
				for key, values := range c.Metadata {
					if strings.Contains(strings.Join(values, " "), "evil") {
						t.Errorf("%s: %q passed", key, values)
					}
				}
			}
		})
	}
}

// credentials: drop keeps even the verified credential from the backend.
func TestCredentialsDrop(t *testing.T) {
	t.Parallel()
	for _, pool := range []string{"credential", "shared"} {
		t.Run(pool, func(t *testing.T) {
			t.Parallel()
			r, b := newEchoRig(t, "credentials: drop\npool: {key: "+pool+"}", "")
			r.call(t, "GET", "/v1/echo", "").ok(t, "")
			if _, err := invoke(r.limited(t), r.conn, unaryEcho, nil); err != nil {
				t.Fatal(err)
			}
			for _, c := range b.Take() {
				for _, key := range auth.CredentialHeaders() {
					wantMetadata(t, c.Metadata, key)
				}
				for key, values := range c.Metadata {
					if strings.Contains(strings.Join(values, " "), r.token) {
						t.Errorf("the token passed as %s", key)
					}
				}
			}
		})
	}
}

// A zRPC backend that checks app and token itself, for unary calls and for
// streams, works unchanged; one whose token it does not know is refused by the
// backend, not by the gateway. Tokens are read in zRPC's layout.
func TestZRPCBackend(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer rdb.Close()
	if err := rdb.HSet(t.Context(), "zrpc:tokens", "mall", "open-sesame", "other", "other-token").Err(); err != nil {
		t.Fatal(err)
	}
	shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t), "--app", "mall", "--token", "open-sesame")
	g := gatewaytest.Serve(t, fmt.Sprintf(`
redis: {addresses: [%q]}
auth: {gozero: {key: "zrpc:tokens"}}
backends:
  - {name: shop, endpoints: [%q], reflection: true}
`, server.Addr, shop.Addr))
	r := &rig{Gateway: g, redis: server, app: "mall", token: "open-sesame", http1: httpClient(t, false), conn: dial(t, g.GRPC)}

	user := r.call(t, "POST", "/v1/users", `{"name":"Ada"}`)
	user.ok(t, "")
	r.do(t, r.http1, "GET", "/v1/users/1", "", "Authorization", basic("mall", "open-sesame")).ok(t, user.Body)
	if _, err := shoppb.NewUserServiceClient(r.conn).GetUser(r.limited(t), &shoppb.GetUserRequest{Id: 1}); err != nil {
		t.Fatal(err)
	}
	watch, err := shoppb.NewOrderServiceClient(r.conn).WatchOrders(r.limited(t), &shoppb.WatchOrdersRequest{UserId: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Header(); err != nil {
		t.Fatalf("watching: %v", err)
	}

	_, err = invoke(metadata.AppendToOutgoingContext(limited(t), "app", "other", "token", "other-token"), r.conn, shoppb.UserService_GetUser_FullMethodName, []byte{8, 1})
	grpcFailed(t, err, codes.Unauthenticated, "")
	_, err = invoke(metadata.AppendToOutgoingContext(limited(t), "app", "mall", "token", "wrong"), r.conn, shoppb.UserService_GetUser_FullMethodName, []byte{8, 1})
	grpcFailed(t, err, codes.Unauthenticated, "TOKEN_INVALID")
	r.do(t, r.http1, "GET", "/v1/users/1", "", "Authorization", basic("nobody", "open-sesame")).failed(t, 401, codes.Unauthenticated, "TOKEN_INVALID")
}

// zRPC's plain tokens go on being good for the apps that have them, once their
// hash was imported, beside tokens of rpcgate's own.
func TestPlainTokensAfterTheirImport(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	const plain = "s3cret+/=of.old"
	if err := r.redis.Client().HSet(limited(t), "zrpc:apps", "legacy", plain).Err(); err != nil {
		t.Fatal(err)
	}
	r.do(t, r.http1, "GET", "/v1/echo", "", "X-App", "legacy", "X-Token", plain).failed(t, 401, codes.Unauthenticated, "TOKEN_INVALID")
	stdout, stderr, exit := gatewaytest.Run(t, "token", "import", "--from", "gozero", "--key", "zrpc:apps", "--redis", r.redis.Addr)
	if exit != 0 || !strings.Contains(stdout, "1 created") {
		t.Fatalf("exit %d: %s%s", exit, stdout, stderr)
	}
	own := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "legacy"}).Secret
	for _, token := range []string{plain, own} {
		gatewaytest.Eventually(t, func() error { // it may still know that there was none
			if got := r.do(t, r.http1, "GET", "/v1/echo", "", "X-App", "legacy", "X-Token", token); got.Status != 200 {
				return fmt.Errorf("%d: %s", got.Status, got.Body)
			}
			return nil
		})
		b.Take()
		md := metadata.Pairs("app", "legacy", "token", token)
		if _, err := invoke(metadata.NewOutgoingContext(limited(t), md), r.conn, unaryEcho, nil); err != nil {
			t.Fatal(err)
		}
		wantMetadata(t, only(t, b).Metadata, "token", token)
	}
	r.do(t, r.http1, "GET", "/v1/echo", "", "X-App", "legacy", "X-Token", plain+"x").failed(t, 401, codes.Unauthenticated, "TOKEN_INVALID")
	if got := r.redis.Do("HGET", "zrpc:apps", "legacy"); got != plain {
		t.Errorf("the hash has %q", got)
	}
}
