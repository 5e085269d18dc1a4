package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// adminOfShop is the admin port of a gateway with one backend, which does not
// run, and what it logs.
func adminOfShop(t *testing.T) (http.Handler, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	source := `syntax = "proto3"; package shop; service S { rpc Get(X) returns (X); } message X {}`
	if err := os.WriteFile(filepath.Join(dir, "s.proto"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := routes.CompileProto(t.Context(), config.ProtoSources{Files: []string{"s.proto"}, ImportPaths: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	g, log, _ := newTestGateway(nil)
	shop := config.DefaultBackend("shop")
	shop.Endpoints, shop.Auth = []string{"127.0.0.1:1"}, "none"
	g.cfg.Backends = []config.Backend{shop}
	b, err := rpcproxy.New(shop, rpcproxy.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	n := generation{cfg: g.cfg, backends: map[string]*rpcproxy.Backend{"shop": b}}
	s, err := g.build(n, nil, []routes.Input{{Backend: shop, Descriptors: files}})
	if err != nil {
		t.Fatal(err)
	}
	g.snapshot.Store(s)
	srv, err := newAdminServer(g, config.Admin{}, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return srv.Handler, log
}

func askAdmin(t *testing.T, h http.Handler, method, path, body string, header ...string) (code int, answer string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestAdminShowsBackends(t *testing.T) {
	t.Parallel()
	h, _ := adminOfShop(t)
	code, text := askAdmin(t, h, http.MethodGet, "/backends", "")
	var all struct{ Backends []BackendView }
	if err := json.Unmarshal([]byte(text), &all); err != nil || code != http.StatusOK || len(all.Backends) != 1 {
		t.Fatalf("%d, %v: %s", code, err, text)
	}
	b := all.Backends[0]
	if b.Name != "shop" || b.Discovery != "endpoints" || !b.Healthy || b.Target == "" || len(b.Endpoints) != 1 ||
		b.Endpoints[0].Address != "127.0.0.1:1" || b.Concurrency.Limit == 0 {
		t.Errorf("shown as %+v", b)
	}
	if !strings.Contains(text, `"breakers":[]`) {
		t.Errorf("no breaker is not an empty list: %s", text)
	}
	code, one := askAdmin(t, h, http.MethodGet, "/backends/shop", "")
	var again BackendView
	if err := json.Unmarshal([]byte(one), &again); err != nil || code != http.StatusOK || again.Name != "shop" {
		t.Errorf("%d, %v: %s", code, err, one)
	}
	if code, text := askAdmin(t, h, http.MethodGet, "/backends/nosuch", ""); code != http.StatusNotFound {
		t.Errorf("%d: %s", code, text)
	}
}

func TestAdminForcesBreakers(t *testing.T) {
	t.Parallel()
	h, log := adminOfShop(t)
	const path = "/backends/shop/breakers"
	code, text := askAdmin(t, h, http.MethodPost, path, `{"method": "shop.S/Get", "state": "open", "for": "5m", "by": "ann"}`)
	var answer struct{ Breakers []BreakerView }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK || len(answer.Breakers) != 1 {
		t.Fatalf("%d, %v: %s", code, err, text)
	}
	b := answer.Breakers[0]
	if b.Method != "/shop.S/Get" || b.App != nil || b.State != "open" || b.RefusedShare != 1 || b.NextProbe == nil || b.Forced == nil ||
		b.Forced.By != "ann from 192.0.2.1" || b.Forced.State != "open" || !b.Forced.Until.Equal(*b.NextProbe) {
		t.Errorf("shown as %+v", b)
	}
	for _, part := range []string{"breaker is forced", "backend=shop", "method=/shop.S/Get", "state=open", `by="ann from 192.0.2.1"`, "until="} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %q: %s", part, log)
		}
	}
	_, text = askAdmin(t, h, http.MethodPost, path, `{"method": "/shop.S/Get", "app": "acme", "state": "closed"}`)
	if !strings.Contains(text, `"app":"acme"`) || !strings.Contains(text, `"forced":{"state":"closed","by":"192.0.2.1"`) {
		t.Errorf("one app's: %s", text)
	}
	askAdmin(t, h, http.MethodPost, path, `{"method": "/shop.S/Get", "app": "acme", "state": "auto"}`)
	code, text = askAdmin(t, h, http.MethodPost, path, `{"method": "/shop.S/Get", "state": "auto"}`)
	if code != http.StatusOK || strings.Contains(text, `"forced":`) || strings.Contains(text, "acme") || !strings.Contains(text, `"state":"closed"`) {
		t.Errorf("by itself again: %d: %s", code, text)
	}
}

// What is not understood to the last key changes nothing.
func TestAdminRefusesBadOrders(t *testing.T) {
	t.Parallel()
	h, log := adminOfShop(t)
	for _, tt := range []struct {
		path, body string
		code       int
		says       string
	}{
		{"shop", ``, 400, "not an order"},
		{"shop", `[]`, 400, "not an order"},
		{"shop", `{"method": "shop.S/Get", "state": "open"} {}`, 400, "more than one"},
		{"shop", `{"method": "shop.S/Get", "state": "open", "fro": "5m"}`, 400, "fro"},
		{"shop", `{"method": "shop.S/Get", "state": "open", "by": "` + strings.Repeat("x", 5000) + `"}`, 400, "too large"},
		{"shop", `{"state": "open"}`, 400, "method is missing"},
		{"shop", `{"method": "shop.S/Get"}`, 400, "state must be"},
		{"shop", `{"method": "shop.S/Get", "state": "half_open"}`, 400, "state must be"},
		{"shop", `{"method": "shop.S/Get", "state": "open", "for": "5"}`, 400, "for must be"},
		{"shop", `{"method": "shop.S/Get", "state": "open", "for": "-5m"}`, 400, "for must be"},
		{"shop", `{"method": "shop.S/Get", "state": "auto", "for": "5m"}`, 400, "for goes with"},
		{"shop", `{"method": "shop.S/Get", "state": "open", "app": ""}`, 400, "app: "},
		{"shop", `{"method": "shop.S/Get", "state": "open", "app": "a.b"}`, 400, "app: "},
		{"shop", `{"method": "shop.S/Get", "state": "open", "by": "a\nb"}`, 400, "by must be"},
		{"shop", `{"method": "shop.S/NoSuch", "state": "open"}`, 404, "no route leads"},
		{"nosuch", `{"method": "shop.S/Get", "state": "open"}`, 404, `there is no backend \"nosuch\"; there are: shop`},
	} {
		code, text := askAdmin(t, h, http.MethodPost, "/backends/"+tt.path+"/breakers", tt.body)
		if code != tt.code || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %d %s, want %d and %q", tt.body, code, text, tt.code, tt.says)
		}
	}
	if strings.Contains(log.String(), "forced") {
		t.Errorf("something was done: %s", log)
	}
}

// No web page changes anything, be it of another origin or, by a name that was
// made to point here, of the same.
func TestAdminRefusesWebPages(t *testing.T) {
	t.Parallel()
	h, log := adminOfShop(t)
	for i, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Sec-Fetch-Site", "same-origin"},
		{"Origin", "https://evil.example"},
		{"Origin", "null"},
		{"Origin", "http://example.com"}, // as the request's Host is
		{"Content-Type", "text/plain"},   // needs no preflight
		{"Content-Type", "application/x-www-form-urlencoded"},
		{"Content-Type", ""},
	} {
		t.Run(fmt.Sprint(i, header), func(t *testing.T) {
			want := http.StatusForbidden
			if header[0] == "Content-Type" {
				want = http.StatusUnsupportedMediaType
			}
			code, text := askAdmin(t, h, http.MethodPost, "/backends/shop/breakers", `{"method": "shop.S/Get", "state": "open"}`, header...)
			if code != want {
				t.Errorf("%d: %s", code, text)
			}
		})
	}
	if code, _ := askAdmin(t, h, http.MethodOptions, "/backends/shop/breakers", "", "Origin", "https://evil.example"); code < 400 {
		t.Errorf("a preflight is answered with %d", code)
	}
	if strings.Contains(log.String(), "forced") {
		t.Errorf("something was done: %s", log)
	}
}

func TestDiscoveryIsNamed(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]config.Backend{
		"endpoints":  {Endpoints: []string{"a:1"}},
		"etcd":       {Etcd: &config.BackendEtcd{}},
		"consul":     {Consul: &config.BackendConsul{}},
		"kubernetes": {Kubernetes: &config.BackendKubernetes{}},
		"dns":        {Target: "dns:///shop:1"},
		"xds":        {Target: "xds:///shop"},
		"unix":       {Target: "unix:/run/shop"},
	} {
		if got := discoveryOf(&b); got != want {
			t.Errorf("%+v is %q, want %q", b, got, want)
		}
	}
	for _, target := range []string{"shop.example.com:1", "localhost:1", "[::1]:1"} {
		if got := discoveryOf(&config.Backend{Target: target}); got != "dns" {
			t.Errorf("%s is %q", target, got)
		}
	}
}
