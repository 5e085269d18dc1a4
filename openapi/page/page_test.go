package page

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(tb testing.TB, h http.Handler, path string, header ...string) *http.Response {
	tb.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(tb testing.TB, r io.Reader) string {
	tb.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func newPage(tb testing.TB, origins ...string) *Page {
	tb.Helper()
	p, err := New(origins...)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

var links = regexp.MustCompile(`(?:src|href)="([^"]*)"`)

// All that the page loads is served beside it, and the policy allows no more.
func TestPageIsWhole(t *testing.T) {
	p := newPage(t, "http://*:8080")
	r := get(t, p, "/docs/")
	if got := r.Header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
	policy := r.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self' http://*:8080;", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s: %s", want, policy)
		}
	}
	html := body(t, r.Body)
	found := links.FindAllStringSubmatch(html, -1)
	if len(found) != 4 {
		t.Errorf("links %q", found)
	}
	for _, link := range found {
		path := Prefix + link[1]
		if strings.Contains(link[1], ":") || strings.HasPrefix(link[1], "/") {
			t.Errorf("%s leads elsewhere", link[1])
		}
		if r := get(t, p, path); r.StatusCode != http.StatusOK || !p.Has(path) || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if strings.Contains(html, "<script>") || strings.Contains(html, "style=") {
		t.Error("the page has inline scripts or styles")
	}
	if js := body(t, get(t, p, "/docs/init.js").Body); !strings.Contains(js, `"../openapi.json"`) || !strings.Contains(js, "validatorUrl: null") {
		t.Error(js)
	}
}

func TestPageHasNothingElse(t *testing.T) {
	p := newPage(t)
	for _, path := range []string{"/docs/x", "/docs/../docs/", "/docs/swagger-ui.css.gz", "/x", "/", ""} {
		if p.Has(path) {
			t.Errorf("%q is one of the page's", path)
		}
	}
	if r := get(t, p, "/docs/x"); r.StatusCode != http.StatusNotFound {
		t.Errorf("%d", r.StatusCode)
	}
	if r := get(t, p, "/docs"); r.StatusCode != http.StatusFound || r.Header.Get("Location") != "docs/" {
		t.Errorf("%d %s", r.StatusCode, r.Header.Get("Location"))
	}
}

// A file comes compressed to those who take it, plain to others, the same in
// both, and not at all to those who have it.
func TestCompression(t *testing.T) {
	text := strings.Repeat("openapi ", 1000)
	files := map[string]http.Handler{
		"made":     NewFile("text/plain", []byte(text)),
		"embedded": newPage(t).files["swagger-ui.css"],
	}
	for name, f := range files {
		t.Run(name, func(t *testing.T) {
			plain := get(t, f, "/")
			want := body(t, plain.Body)
			if len(want) < 1000 || plain.Header.Get("Content-Encoding") != "" || plain.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%d bytes, %v", len(want), plain.Header)
			}
			for _, accept := range []string{"gzip", "br, GZIP;q=0.5", "deflate, gzip"} {
				r := get(t, f, "/", "Accept-Encoding", accept)
				if r.Header.Get("Content-Encoding") != "gzip" {
					t.Errorf("%s: not compressed", accept)
					continue
				}
				unzip, err := gzip.NewReader(r.Body)
				if err != nil {
					t.Fatal(err)
				}
				if body(t, unzip) != want {
					t.Errorf("%s: another text", accept)
				}
				again := get(t, f, "/", "Accept-Encoding", accept, "If-None-Match", r.Header.Get("ETag"))
				if again.StatusCode != http.StatusNotModified || r.Header.Get("ETag") == plain.Header.Get("ETag") {
					t.Errorf("%s: %d for %s", accept, again.StatusCode, r.Header.Get("ETag"))
				}
			}
			for _, accept := range []string{"", "br", "gzip;q=0", "gzip; q=0.000", "xgzip"} {
				if r := get(t, f, "/", "Accept-Encoding", accept); r.Header.Get("Content-Encoding") != "" {
					t.Errorf("%q: compressed", accept)
				}
			}
		})
	}
	if small := get(t, NewFile("text/plain", []byte("x")), "/", "Accept-Encoding", "gzip"); small.Header.Get("Content-Encoding") != "" {
		t.Error("a byte is compressed")
	}
}
