package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

func TestWithoutOriginsThereIsNoCORS(t *testing.T) {
	t.Parallel()
	next := new(http.ServeMux)
	if got := withCORS(next, config.Defaults().HTTP); got != http.Handler(next) {
		t.Errorf("the handler is wrapped in %T", got)
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	reached := 0
	h := withCORS(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached++
		w.WriteHeader(http.StatusUnauthorized)
	}), config.HTTP{CORS: config.CORS{
		AllowedOrigins: []string{"https://app.example", "https://*.pages.example"},
		AllowedMethods: []string{"GET", "POST"}, AllowedHeaders: []string{"X-Tenant"}, ExposedHeaders: []string{"ETag"},
		AllowCredentials: true, MaxAge: 10 * time.Minute,
	}})
	ask := func(method string, header ...string) http.Header {
		r := httptest.NewRequest(method, "/v1", nil)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Header()
	}
	preflight := func(origin, method, headers string) http.Header {
		return ask("OPTIONS", "Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
	}
	for _, tc := range []struct {
		origin, method, headers string
		want                    bool
	}{
		{"https://app.example", "POST", "authorization,content-type,x-tenant", true},
		{"https://a.b.pages.example", "POST", "connect-protocol-version,connect-timeout-ms,content-type", true},
		{"https://app.example", "POST", "content-type,grpc-timeout,x-app,x-grpc-web,x-token,x-user-agent", true},
		{"https://app.example", "DELETE", "", false},
		{"https://app.example", "POST", "x-other", false},
		{"https://evil.example", "POST", "", false},
		{"http://app.example", "POST", "", false},
		{"https://pages.example.evil.example", "POST", "", false},
		{"null", "POST", "", false},
	} {
		got := preflight(tc.origin, tc.method, tc.headers)
		if allowed := got.Get("Access-Control-Allow-Origin") == tc.origin; allowed != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
		if tc.want && (got.Get("Access-Control-Max-Age") != "600" || got.Get("Access-Control-Allow-Credentials") != "true") {
			t.Errorf("%+v: %v", tc, got)
		}
	}
	if reached != 0 {
		t.Errorf("%d preflights were handed on", reached)
	}
	// A refused call can be read all the same.
	got := ask("POST", "Origin", "https://app.example")
	if reached != 1 || got.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("an answer has %v", got)
	}
	for _, name := range []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin", "X-Request-Id", "Retry-After", "Ratelimit", "Ratelimit-Policy", "Etag"} {
		if !strings.Contains(got.Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("%s is not exposed: %v", name, got)
		}
	}
	if got := ask("POST", "Origin", "https://evil.example"); got.Get("Access-Control-Allow-Origin") != "" || got.Get("Vary") != "Origin" {
		t.Errorf("an answer for another origin has %v", got)
	}
	ask("OPTIONS", "Origin", "https://app.example") // no preflight: a page's own OPTIONS
	if reached != 3 {
		t.Errorf("%d requests were handed on, want 3", reached)
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	cfg := config.HTTP{
		CORS:    config.CORS{AllowedOrigins: []string{"https://app.example"}},
		Streams: config.Streams{AllowedOrigins: []string{"https://*.pages.example"}},
	}
	for origin, want := range map[string]bool{
		"": true, "https://app.example": true, "https://a.pages.example": true, "http://gateway.example:8080": true,
		"https://GATEWAY.example:8080": true, "http://gateway.example": false, "https://evil.example": false, "null": false,
		"https://gateway.example:8080.evil.example": false, "https://app.example.evil.example": false, "https://pages.example": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://gateway.example:8080/v1", nil)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if got := newOrigins(cfg).allow(r); got != want {
			t.Errorf("%q is allowed: %t", origin, got)
		}
		if want := origin == "" || strings.EqualFold(strings.TrimPrefix(strings.TrimPrefix(origin, "https://"), "http://"), r.Host); newOrigins(config.HTTP{}).allow(r) != want {
			t.Errorf("without any configured, %q is allowed: %t", origin, !want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "http://gateway.example:8080/v1", nil)
	r.Header["Origin"] = []string{"https://app.example", "https://evil.example"}
	if newOrigins(cfg).allow(r) {
		t.Error("two origins are allowed")
	}
	if newOrigins(config.HTTP{Streams: config.Streams{AllowedOrigins: []string{"*"}}}).allow(r) {
		t.Error("two origins are allowed where any is")
	}
}
