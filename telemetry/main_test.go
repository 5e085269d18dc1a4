package telemetry

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines decodes what a JSON logger wrote.
func lines(t *testing.T, b *bytes.Buffer) []map[string]any {
	t.Helper()
	var out []map[string]any
	for dec := json.NewDecoder(b); dec.More(); {
		var line map[string]any
		if err := dec.Decode(&line); err != nil {
			t.Fatalf("the log is not JSON: %v", err)
		}
		out = append(out, line)
	}
	return out
}

// scrape returns the samples of the named metrics as a scraper sees them, sorted.
func scrape(t *testing.T, reg *prometheus.Registry, names ...string) []string {
	t.Helper()
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("a scrape gives %d: %s", rec.Code, rec.Body)
	}
	var out []string
	for line := range strings.Lines(rec.Body.String()) {
		name := line[:strings.IndexAny(line, " {")]
		if slices.Contains(names, name) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	slices.Sort(out)
	return out
}

func wantSamples(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("samples\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
