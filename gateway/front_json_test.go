package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

// What a unary call costs the JSON front end, with neither net/http nor a backend.
func BenchmarkUnaryJSON(b *testing.B) {
	backend := config.DefaultBackend("echo")
	backend.DefaultBinding = true
	front := newEchoFrontOf(b, backend)
	text := []byte(`{"text":"` + strings.Repeat("x", 128) + `"}`)
	r := httptest.NewRequest(http.MethodPost, "/test.Echo/Unary", nil)
	r.Header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {"test"}, "Accept": {"*/*"}}
	r.ContentLength = int64(len(text))
	body := bytes.NewReader(text)
	r.Body = io.NopCloser(body)
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(text)
		front.ServeHTTP(&sink{header: make(http.Header, 8)}, r)
	}
}
