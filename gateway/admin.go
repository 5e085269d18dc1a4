package gateway

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/openapi/page"
)

// newAdminServer makes the operators' server: metrics, health, profiles, the
// backends and their breakers, the documentation of the routes, and services.
// Without operators it authenticates nobody; the config says to keep it private.
func newAdminServer(g *Gateway, cfg config.Admin, services *AdminServices, metrics prometheus.Gatherer, log *slog.Logger) (*http.Server, error) {
	mux := http.NewServeMux()
	docs, err := newAdminDocs(g)
	if err != nil {
		return nil, err
	}
	for _, path := range []string{openAPIJSON, openAPIYAML, page.Prefix} {
		mux.Handle("GET "+path, docs)
	}
	if metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", g.serveReady)
	mux.HandleFunc("GET /backends", g.serveBackends)
	mux.HandleFunc("GET /backends/{name}", g.serveBackend)
	mux.HandleFunc("POST /backends/{name}/breakers", g.operated(false, g.serveBreakerOrder))
	if cfg.Debug {
		mux.HandleFunc("GET /debug/pprof/", g.operated(true, pprof.Index))
		mux.HandleFunc("GET /debug/pprof/cmdline", g.operated(true, pprof.Cmdline))
		mux.HandleFunc("GET /debug/pprof/profile", g.operated(true, pprof.Profile))
		mux.HandleFunc("GET /debug/pprof/symbol", g.operated(true, pprof.Symbol))
		mux.HandleFunc("GET /debug/pprof/trace", g.operated(true, pprof.Trace))
	}
	if services != nil && g.operators != nil {
		edge, err := newAdminEdge(g, services, g.operators)
		if err != nil {
			return nil, err
		}
		edge.register(mux)
	}
	srv := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
	}
	srv.Protocols.SetHTTP1(true)
	if cfg.Debug {
		srv.Handler = withChannelz(mux, g.operated)
	}
	if cfg.TLS == nil {
		srv.Protocols.SetUnencryptedHTTP2(true)
		return srv, nil
	}
	srv.Protocols.SetHTTP2(true)
	if srv.TLSConfig, err = serverTLS(cfg.TLS, log); err != nil {
		return nil, fmt.Errorf("admin.tls: %w", err)
	}
	if cfg.TLS.ClientCAFile != "" {
		// Who has none may still ask for health and metrics.
		srv.TLSConfig.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return srv, nil
}

// withChannelz serves gRPC's channelz beside next, on the same port, and with it
// what gRPC says of services that there are not.
func withChannelz(next *http.ServeMux, guard func(reads bool, h http.HandlerFunc) http.HandlerFunc) http.Handler {
	srv := grpc.NewServer()
	channelz.RegisterChannelzServiceToServer(srv)
	guarded := guard(true, srv.ServeHTTP)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			if _, pattern := next.Handler(r); pattern == "" {
				guarded(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
