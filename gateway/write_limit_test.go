package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// limitedWriter fails the test when something is written, or left to net/http to
// be written, without a limit.
type limitedWriter struct {
	*httptest.ResponseRecorder
	t       *testing.T
	limited bool
}

func (w *limitedWriter) SetReadDeadline(time.Time) error { return nil }

func (w *limitedWriter) SetWriteDeadline(until time.Time) error {
	w.limited = !until.IsZero()
	return nil
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	w.check("a write")
	return w.ResponseRecorder.Write(p)
}

func (w *limitedWriter) FlushError() error {
	w.check("a flush")
	return nil
}

func (w *limitedWriter) check(what string) {
	w.t.Helper()
	if !w.limited {
		w.t.Errorf("%s without a limit", what)
	}
}

// Nobody can hold an answer up for ever by not reading it, known or not.
func TestEveryAnswerHasAWriteLimit(t *testing.T) {
	t.Parallel()
	front := newEchoFront(t)
	docs, err := newEdgeDocs(front.g)
	if err != nil {
		t.Fatal(err)
	}
	front.docs = docs
	cfg := front.cfg
	cfg.CORS.AllowedOrigins = []string{"https://app.example"}
	handler := withCORS(front, cfg)
	for name, tc := range map[string]struct {
		method, path, contentType, body string
		status                          int
	}{
		"no route":        {http.MethodGet, "/nowhere", "", "", 404},
		"docs":            {http.MethodGet, "/docs/swagger-ui-bundle.js", "", "", 200},
		"document":        {http.MethodGet, "/openapi.json", "", "", 200},
		"preflight":       {http.MethodOptions, "/test.Echo/Unary", "", "", 204},
		"wrong type":      {http.MethodPost, "/test.Echo/Unary", "text/plain", "x", 415},
		"wrong method":    {http.MethodPut, "/test.Echo/Unary", "application/grpc", "", 405},
		"HTTP/1.1":        {http.MethodPost, "/test.Echo/Unary", "application/grpc", "", 505},
		"Connect":         {http.MethodPost, "/test.Echo/Unary", "application/json", "{}", 200},
		"gRPC-Web":        {http.MethodPost, "/test.Echo/Unary", "application/grpc-web", "\x00\x00\x00\x00\x00", 200},
		"Connect stream":  {http.MethodPost, "/test.Echo/Chat", "application/connect+json", "\x00\x00\x00\x00\x02{}", 200},
		"wrong handshake": {"GET+upgrade", "/test.Echo/Unary", "", "", 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method, upgrade := strings.CutSuffix(tc.method, "+upgrade")
			r := httptest.NewRequest(method, tc.path, strings.NewReader(tc.body))
			r.Header.Set("Origin", "https://app.example")
			if tc.contentType != "" {
				r.Header.Set("Content-Type", tc.contentType)
			}
			if method == http.MethodOptions {
				r.Header.Set("Access-Control-Request-Method", "POST")
			}
			if upgrade {
				r.Header.Set("Upgrade", "websocket")
			}
			w := &limitedWriter{ResponseRecorder: httptest.NewRecorder(), t: t}
			handler.ServeHTTP(w, r)
			w.check("the end")
			if w.Code != tc.status {
				t.Errorf("%d, want %d", w.Code, tc.status)
			}
		})
	}
}

// Its own vary goes beside that of CORS, for caches to have both.
func TestDocsVary(t *testing.T) {
	t.Parallel()
	front := newEchoFront(t)
	docs, err := newEdgeDocs(front.g)
	if err != nil {
		t.Fatal(err)
	}
	front.docs = docs
	w := httptest.NewRecorder()
	cfg := front.cfg
	cfg.CORS = config.CORS{AllowedOrigins: []string{"https://app.example"}, AllowedMethods: []string{http.MethodGet}}
	withCORS(front, cfg).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/swagger-ui.css", nil))
	if got := strings.Join(w.Header()["Vary"], ", "); w.Code != http.StatusOK || got != "Origin, Accept-Encoding" {
		t.Errorf("%d, Vary: %s", w.Code, got)
	}
}
