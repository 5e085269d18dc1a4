package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// Callers that never end what they send get an answer, and keep no goroutine:
// neither where the body is read, nor where net/http alone would wait for it.
func TestAdminPortWaitsForNoBody(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reads", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusRequestTimeout)
		}
	})
	limits := config.Defaults().HTTP
	limits.BodyTimeout, limits.WriteTimeout = 50*time.Millisecond, time.Second
	srv := httptest.NewServer(limitAdmin(mux, limits))
	defer srv.Close()
	for path, want := range map[string]string{"/reads": "408", "/nothing": "404"} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", path)
		all, err := io.ReadAll(bufio.NewReader(conn))
		_ = conn.Close()
		if status, _, _ := strings.Cut(string(all), "\r\n"); err != nil || !strings.Contains(status, want) {
			t.Errorf("%s: %q, %v", path, status, err)
		}
	}
}

// The admin port has the limits that the HTTP port has by default.
func TestAdminPortHasLimits(t *testing.T) {
	t.Parallel()
	g, _, _ := newTestGateway(nil)
	srv, err := newAdminServer(g, config.Admin{Debug: true}, nil, nil, g.log)
	if err != nil {
		t.Fatal(err)
	}
	if srv.IdleTimeout <= 0 || srv.MaxHeaderBytes <= 0 || srv.ReadHeaderTimeout <= 0 || srv.HTTP2.MaxConcurrentStreams <= 0 {
		t.Errorf("%+v", srv)
	}
}

func TestBearerToken(t *testing.T) {
	t.Parallel()
	for want, headers := range map[string][][]string{
		"":      {nil},
		"abc":   {{"Bearer abc"}, {"bearer   abc"}},
		noToken: {{"abc"}, {""}, {"Bearer"}, {"Bearer "}, {"Basic abc"}, {"Bearer abc", "Bearer abc"}},
	} {
		for _, values := range headers {
			if got := bearerToken(http.Header{"Authorization": values}); got != want {
				t.Errorf("%q: %q, want %q", values, got, want)
			}
		}
	}
}
