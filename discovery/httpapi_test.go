package discovery

import (
	"bytes"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// startTLS is httptest.NewTLSServer, which does not log the callers that refuse
// its certificate.
func startTLS(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.EnableHTTP2 = true
	s.StartTLS()
	return s
}

// caFile writes what trusts a TLS server of httptest, whose certificate is for
// example.com.
func caFile(t *testing.T, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func mustParse(t *testing.T, text string) url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return *u
}

// lockedBuffer is a log that a test reads while others write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestErrorsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef"
	long := strings.Repeat(" x", maxErrorText)
	for name, tc := range map[string]struct{ text, secret, want string }{
		"whole":           {"token " + secret + " lacks\nservice:read", secret, "token [redacted] lacks service:read"},
		"cut off":         {long[:maxErrorText-6] + secret, secret, strings.TrimSpace(long[:maxErrorText-6])},
		"twice":           {secret + long[:maxErrorText-20] + secret, secret, "[redacted]" + long[:maxErrorText-20]},
		"without a token": {long, "", strings.TrimSpace(long[:maxErrorText])},
		"no text":         {"", secret, ""},
	} {
		if got := errorText(tc.text, tc.secret); got != strings.TrimSpace(tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
