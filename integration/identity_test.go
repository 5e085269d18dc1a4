package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// forged are headers by which a caller pretends to be another, in all the ways
// that headers become metadata.
func forged() []string {
	var all []string
	for _, name := range []string{"x-rpcgate-app", "x-rpcgate-token-id", "x-rpcgate-scopes", "x-rpcgate-anything", "x-rpcgate-app-bin"} {
		all = append(all,
			name, "evil", strings.ToUpper(name), "evil",
			"Grpc-Metadata-"+name, "evil", "Grpc-Metadata-"+strings.ToUpper(name), "evil",
			"Grpcgateway-"+name, "evil", "Grpc-Metadata-Grpcgateway-"+name, "evil",
		)
	}
	return append(all, "Grpc-Metadata-X-Rpcgate-App-Bin", "ZXZpbA==")
}

// wantIdentity checks that a backend was told of the caller what the gateway
// knows, once, and nothing else that looks like it.
func wantIdentity(t *testing.T, way string, md metadata.MD, want map[string]string) {
	t.Helper()
	for key, values := range md {
		if strings.Contains(key, "x-rpcgate-") && len(want[key]) == 0 {
			t.Errorf("%s: the backend got %s: %q", way, key, values)
		}
		for _, v := range values {
			if v == "evil" {
				t.Errorf("%s: the backend got the caller's %s", way, key)
			}
		}
	}
	for key, value := range want {
		if got := md[key]; len(got) != 1 || got[0] != value {
			t.Errorf("%s: the backend got %s: %q, want %q", way, key, got, value)
		}
	}
}

// ways makes the same unary call by each protocol, with headers.
func ways(t *testing.T, r *rig, b *testbackend.Server, header []string) map[string]func() error {
	t.Helper()
	add := func(h http.Header) {
		for i := 0; i+1 < len(header); i += 2 {
			h[http.CanonicalHeaderKey(header[i])] = append(h[http.CanonicalHeaderKey(header[i])], header[i+1])
		}
	}
	all := map[string]func() error{
		"JSON":         func() error { return r.withHeader(r.http1, header)(limited(t)) },
		"JSON, HTTP/2": func() error { return r.withHeader(r.http2, header)(limited(t)) },
		"gRPC": func() error {
			ctx := r.limited(t)
			for i := 0; i+1 < len(header); i += 2 {
				if key := strings.ToLower(header[i]); !strings.HasSuffix(key, "-bin") {
					ctx = metadata.AppendToOutgoingContext(ctx, key, header[i+1])
				}
			}
			_, err := invoke(ctx, r.conn, unaryEcho, nil)
			return err
		},
		"WebSocket": func() error {
			s, err := r.trySocket(t, "/v1/echo", nil, append([]string{"Authorization", r.bearer()}, header...)...)
			if err != nil {
				return fmt.Errorf("%w: %d", err, s.resp.StatusCode)
			}
			s.next() // the route at this path by GET has no body, and takes no message
			return nil
		},
	}
	for _, w := range rpcWays() {
		if w.gzip || w.json {
			continue
		}
		all[w.String()+" over HTTP"] = func() error {
			req := connect.NewRequest(text(b, "hello"))
			add(req.Header())
			_, err := w.client(t, r, b, "Echo/Unary").CallUnary(limited(t), req)
			return err
		}
	}
	return all
}

func (r *rig) withHeader(client *http.Client, header []string) callFunc {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.HTTP+"/v1/echo", strings.NewReader(`{"text":"hello"}`))
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Add(header[i], header[i+1])
		}
		req.Header.Set("Authorization", r.bearer())
		return send(client, req)
	}
}

// A backend learns from the gateway who calls, beside the credential or instead of
// it, and from nobody else, whatever the protocol and whatever rules there are.
func TestBackendsLearnWhoCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings string
		told     []string // of app, token-id and scopes
		token    bool     // is sent, too
	}{
		"as it comes":          {"", []string{"app", "token-id", "scopes"}, true},
		"instead":              {"credentials: drop", []string{"app", "token-id", "scopes"}, false},
		"one fact":             {"identity: [token_id]", []string{"token-id"}, true},
		"nothing":              {"identity: []\ncredentials: drop", nil, false},
		"everything passes":    {"headers: {request: {allow: ['*']}}", []string{"app", "token-id", "scopes"}, true},
		"everything is denied": {"headers: {request: {deny: ['*']}}", []string{"app", "token-id", "scopes"}, true},
		"one connection":       {"pool: {key: shared}", []string{"app", "token-id", "scopes"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, b := newEchoRig(t, tc.settings, "")
			facts := map[string]string{"app": r.app, "token-id": tokenID(r.token), "scopes": "*"}
			want := map[string]string{}
			for _, fact := range tc.told {
				want["x-rpcgate-"+fact] = facts[fact]
			}
			for way, call := range ways(t, r, b, forged()) {
				if err := call(); err != nil {
					t.Errorf("%s: %v", way, err)
					continue
				}
				md := only(t, b).Metadata
				wantIdentity(t, way, md, want)
				if sent := len(md["token"]) > 0; sent != tc.token {
					t.Errorf("%s: the token is sent: %t", way, sent)
				}
			}
		})
	}
}

// No rule sets what only the gateway says, or takes another header for it.
func TestNoRuleForgesAnIdentity(t *testing.T) {
	t.Parallel()
	for _, rules := range []string{
		"rename: {X-User: x-rpcgate-app}", "set: {X-Rpcgate-App: evil}", "rename: {x-rpcgate-app: user}", "allow: [x-rpcgate-app]", "deny: [X-Rpcgate-Scopes]",
	} {
		b := testbackend.Start(t)
		told, exit := checkFile(t, echoConfig(b, "headers: {request: {"+rules+"}}"))
		if exit == 0 || !strings.Contains(told, "is not for rules") {
			t.Errorf("%s: exit status %d: %s", rules, exit, told)
		}
	}
}

// On a route that needs no credential there is nobody to tell of; and who
// pretends is not believed there either.
func TestNobodyIsToldOfWithoutACredential(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "auth: none", "")
	for way, call := range ways(t, r, b, forged()) {
		if err := call(); err != nil {
			t.Errorf("%s: %v", way, err)
			continue
		}
		wantIdentity(t, way, only(t, b).Metadata, nil)
	}
}

// The trace context, the request's id, and the headers that the configuration
// names go on by every protocol.
func TestContextHeadersPassOn(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "context_headers: [X-Tenant, Accept-Language, Cookie]\n")
	header := []string{
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate", "a=1", "Baggage", "user=ada,tier=gold",
		"X-Tenant", "blue", "Accept-Language", "en", "Cookie", "a=b", "X-Request-Id", "mine", "X-Private", "no",
	}
	for way, call := range ways(t, r, b, header) {
		if err := call(); err != nil {
			t.Errorf("%s: %v", way, err)
			continue
		}
		md := only(t, b).Metadata
		for key, want := range map[string]string{
			"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1", "baggage": "user=ada,tier=gold",
			"x-tenant": "blue", "accept-language": "en", "cookie": "a=b", "x-request-id": "mine",
		} {
			if got := md[key]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: the backend got %s: %q, want %q", way, key, got, want)
			}
		}
		if strings.HasPrefix(way, "JSON") || way == "WebSocket" {
			wantMetadata(t, md, "x-private")
		}
	}
}

// A call outside of the scopes is refused by every protocol in its own words,
// with the scope that would be needed, before anything of it is read or sent.
func TestScopesByEveryProtocol(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	allowed := r.token
	r.token = issueToken(t, r.redis.Addr, tenant.IssueOptions{App: r.app, Scopes: []string{"testbackend.Echo/Bidi", "GET /v1/echo:stream"}}).Secret
	for way, call := range ways(t, r, b, nil) {
		err := call()
		switch {
		case err == nil:
			t.Errorf("%s: it was let through", way)
		case way == "WebSocket":
			if !strings.HasSuffix(err.Error(), ": 403") {
				t.Errorf("%s: %v", way, err)
			}
		case strings.Contains(way, "over HTTP"):
			if connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "testbackend.Echo/Unary") {
				t.Errorf("%s: %v", way, err)
			}
		case reasonFor(err) != "SCOPE_MISSING" || !strings.Contains(err.Error(), "testbackend.Echo/Unary"):
			t.Errorf("%s: %v", way, err)
		}
	}
	untouched(t, b)
	_, err := invoke(r.limited(t), r.conn, unaryEcho, nil)
	grpcFailed(t, err, codes.PermissionDenied, "SCOPE_MISSING")
	r.call(t, http.MethodPost, "/v1/echo", "{}").failed(t, 403, codes.PermissionDenied, "SCOPE_MISSING")

	// By its path alone, and by whichever spelling of it.
	for _, target := range []string{"/v1/echo:stream", "/v1/%65cho:stream", "/v1/echo%3Astream"} {
		a := r.call(t, http.MethodGet, target, "")
		if a.Status != 200 && a.Status != 404 {
			t.Errorf("%s: %d %s", target, a.Status, a.Body)
		}
	}
	r.call(t, http.MethodGet, "/v1/echo:stream", "").ok(t, "")
	s := rawStream(t, r.limited(t), r.conn, echoStream)
	if _, err := s.recv(); reasonFor(err) != "SCOPE_MISSING" {
		t.Errorf("a scope of a path lets gRPC callers through: %v", err)
	}
	bidi := rawStream(t, r.limited(t), r.conn, echoBidi)
	echoes(t, bidi)
	b.Take()

	r.token = allowed
	must(t, r.echoing())
}

// A token that is bound to networks is good from there alone; whoever forwards
// callers' addresses must be trusted to.
func TestTokensBoundToNetworks(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		proxies := ""
		if trusted {
			proxies = "http: {address: '127.0.0.1:0', trusted_proxies: ['127.0.0.0/8']}\n"
		}
		r, b := newEchoRig(t, "", proxies)
		bound := func(network string) string { return issueBound(t, r, network) }
		there, here := bound("203.0.113.0/24"), bound("127.0.0.0/8")
		must(t, r.echoingAs(r.app, here))
		ends(t, r.echoingAs(r.app, there), "SOURCE_NOT_ALLOWED")
		as := &rig{Gateway: r.Gateway, app: r.app, token: there, conn: r.conn}
		ends(t, as.invoking(r.conn), "SOURCE_NOT_ALLOWED")
		b.Take()
		a := r.do(t, r.http1, http.MethodPost, "/v1/echo", "{}", "Authorization", "Bearer "+r.app+"."+there, "X-Forwarded-For", "203.0.113.9")
		if trusted {
			a.ok(t, "")
		} else {
			a.failed(t, 403, codes.PermissionDenied, "SOURCE_NOT_ALLOWED")
			untouched(t, b)
		}
	}
}

// issueBound issues a token of the rig's app for one network.
func issueBound(t *testing.T, r *rig, network string) string {
	t.Helper()
	return issueToken(t, r.redis.Addr, tenant.IssueOptions{App: r.app, Networks: []netip.Prefix{netip.MustParsePrefix(network)}}).Secret
}

// checkFile runs `gateway check` on a configuration, and gives what it says.
func checkFile(t *testing.T, text string) (told string, exit int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte("redis: {addresses: ['127.0.0.1:1']}\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, exit := gatewaytest.Run(t, "check", "-c", file)
	return stdout + stderr, exit
}
