package integration_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// Preflights are answered without a credential, for every protocol; and a page
// can read answers and errors alike.
func TestCORS(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", `http:
  address: 127.0.0.1:0
  max_body_size: 1KiB
  cors: {allowed_origins: ["https://app.example"], allowed_headers: [X-Tenant], exposed_headers: [ETag]}
`)
	const origin = "https://app.example"
	for _, client := range []*http.Client{r.http1, r.http2} {
		for target, headers := range map[string]string{
			"/v1/echo":                "authorization,content-type,x-tenant",
			"/testbackend.Echo/Unary": "connect-protocol-version,content-type,x-app,x-token",
			"/testbackend.Echo/Bidi":  "content-type,grpc-timeout,x-grpc-web,x-user-agent",
			"/nowhere":                "authorization",
		} {
			a := r.do(t, client, "OPTIONS", target, "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", headers)
			if a.Status != 204 || a.Header.Get("Access-Control-Allow-Origin") != origin || a.Header.Get("Access-Control-Allow-Headers") != headers {
				t.Errorf("%s: %d %v", target, a.Status, a.Header)
			}
		}
		a := r.do(t, client, "OPTIONS", "/v1/echo", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
		wantHeader(t, a.Header, "Access-Control-Allow-Origin", "")

		a = r.call(t, "GET", "/v1/echo", "", "Origin", origin)
		a.ok(t, "")
		wantHeader(t, a.Header, "Access-Control-Allow-Origin", origin)
		for name, refused := range map[string]answer{
			"401": r.do(t, client, "GET", "/v1/echo", "", "Origin", origin),
			"404": r.do(t, client, "GET", "/nowhere", "", "Origin", origin, "Authorization", r.bearer()),
			"413": r.do(t, client, "POST", "/v1/echo", strings.Repeat(" ", 2048), "Origin", origin, "Authorization", r.bearer()),
		} {
			if refused.Header.Get("Access-Control-Allow-Origin") != origin || !strings.Contains(refused.Header.Get("Access-Control-Expose-Headers"), "X-Request-Id") {
				t.Errorf("%s: %d %v", name, refused.Status, refused.Header)
			}
		}
	}
	b.Take()
	s, err := r.trySocket(t, "/v1/echo", nil, "Origin", origin)
	if err == nil {
		t.Fatal("a WebSocket without a credential was opened")
	}
	body, _ := io.ReadAll(s.resp.Body)
	answer{Status: s.resp.StatusCode, Header: s.resp.Header, Body: string(body)}.failed(t, 401, codes.Unauthenticated, "CREDENTIAL_MISSING")
	untouched(t, b)
}

// Without origins, nothing of CORS is said.
func TestNoCORSByDefault(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "")
	for _, a := range []answer{
		r.call(t, "GET", "/v1/echo", "", "Origin", "https://app.example"),
		r.do(t, r.http1, "OPTIONS", "/v1/echo", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST"),
	} {
		for name := range a.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%d has %s", a.Status, name)
			}
		}
	}
}
