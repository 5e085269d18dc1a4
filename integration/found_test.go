package integration_test

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// placed is what a stand-in of a registry has: the endpoints of one service,
// and who waits for news of them. What these stand-ins leave out of the real
// ones, those of package discovery's tests have.
type placed struct {
	mu        sync.Mutex
	version   int
	endpoints []string
	changed   chan struct{}
}

func newPlaced(endpoints ...string) *placed {
	return &placed{version: 1, endpoints: endpoints, changed: make(chan struct{})}
}

func (p *placed) set(endpoints ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	p.endpoints = endpoints
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *placed) get() (version int, endpoints []string, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version, p.endpoints, p.changed
}

// each formats the endpoints, host and port each, as the members of a JSON list.
func each(format string, endpoints []string) string {
	var all []string
	for _, e := range endpoints {
		host, port, _ := net.SplitHostPort(e)
		all = append(all, fmt.Sprintf(format, host, port))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// consulAgent answers for the service echo, to blocking queries too.
func consulAgent(p *placed) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		version, endpoints, changed := p.get()
		if r.URL.Path != "/v1/health/service/echo" || r.Header.Get("X-Consul-Token") != "consul-token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.URL.Query().Get("index") == fmt.Sprint(version) {
			select {
			case <-changed:
				version, endpoints, _ = p.get()
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("X-Consul-Index", fmt.Sprint(version))
		fmt.Fprint(w, each(`{"Node": {"Address": "203.0.113.1"}, "Service": {"Address": %q, "Port": %s, "Meta": {"zone": "z1"}}}`, endpoints))
	}
}

// apiServer has the service echo in one EndpointSlice.
func apiServer(p *placed) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		version, endpoints, changed := p.get()
		if r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/apps/endpointslices" || r.Header.Get("Authorization") != "Bearer pod-token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		slice := func(format string) {
			_, port, _ := net.SplitHostPort(endpoints[0])
			fmt.Fprintf(w, format+"\n", fmt.Sprintf(`{"metadata": {"name": "echo-1", "resourceVersion": "%d"}, "addressType": "IPv4", "ports": [{"name": "grpc", "port": %s}], "endpoints": %s}`,
				version, port, each(`{"addresses": [%q], "nodeName": "node-%s", "zone": "z1"}`, endpoints)))
		}
		if r.URL.Query().Get("watch") == "" {
			slice(fmt.Sprintf(`{"metadata": {"resourceVersion": "%d"}, "items": [%%s]}`, version))
			return
		}
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case <-changed:
				version, endpoints, changed = p.get()
				slice(`{"type": "MODIFIED", "object": %s}`)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

// A backend is found in Consul and in Kubernetes, and replicas that change are
// called without a call that fails.
func TestFoundElsewhere(t *testing.T) {
	t.Parallel()
	write := func(name, text string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, tc := range map[string]struct {
		registry func(*placed) http.HandlerFunc
		start    func(http.Handler) *httptest.Server
		config   func(*httptest.Server) string
	}{
		"Consul": {consulAgent, httptest.NewServer, func(s *httptest.Server) string {
			return fmt.Sprintf("consul: {address: %q, token_file: %q}\n", s.Listener.Addr(), write("token", "consul-token\n")) +
				"backends:\n  - {name: echo, consul: {service: echo}, reflection: true}\n"
		}},
		"Kubernetes": {apiServer, httptest.NewTLSServer, func(s *httptest.Server) string {
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
			return fmt.Sprintf("kubernetes: {address: %q, token_file: %q, tls: {ca_file: %q}}\n", s.URL, write("token", "pod-token\n"), write("ca.crt", string(ca))) +
				"backends:\n  - {name: echo, kubernetes: {service: echo, namespace: apps, port: grpc}, reflection: true}\n"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := startCounted(t), startCounted(t)
			p := newPlaced(one.Addr)
			s := tc.start(tc.registry(p))
			t.Cleanup(s.Close)
			r := newRig(t, tc.config(s))
			comesTo(t, r.echoing(), "OK")
			callers := startLoad(t, 2, r.echoing(), r.invoking(r.conn))
			one.awaitCalls(t, 20)
			if shown := r.AdminGet("/backends"); !strings.Contains(shown, one.Addr) || !strings.Contains(shown, `"zone":"z1"`) {
				t.Errorf("GET /backends gives %s", shown)
			}
			p.set(two.Addr)
			two.awaitCalls(t, 20)
			s.CloseClientConnections() // and is asked again
			p.set(one.Addr)
			one.awaitCalls(t, 20)
			callers.stop()
			callers.only()
		})
	}
}
