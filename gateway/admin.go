package gateway

import (
	"encoding/json"
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
// backends and their breakers, the documentation of the routes. It authenticates
// nobody; the config says to keep it private.
func newAdminServer(g *Gateway, cfg config.Admin, metrics prometheus.Gatherer, log *slog.Logger) (*http.Server, error) {
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
	mux.HandleFunc("POST /backends/{name}/breakers", g.serveBreakerOrder)
	if cfg.Debug {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	srv := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
	}
	srv.Protocols.SetHTTP1(true)
	if cfg.Debug {
		srv.Protocols.SetUnencryptedHTTP2(true)
		srv.Handler = withChannelz(mux)
	}
	return srv, nil
}

// withChannelz serves gRPC's channelz beside next, on the same port.
func withChannelz(next http.Handler) http.Handler {
	srv := grpc.NewServer()
	channelz.RegisterChannelzServiceToServer(srv)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			srv.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
