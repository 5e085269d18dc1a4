package gateway

import (
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"

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
	var besides []func(*grpc.Server) // gRPC's own services
	if cfg.Debug {
		besides = append(besides, func(srv *grpc.Server) { channelz.RegisterChannelzServiceToServer(srv) })
	}
	if services != nil && g.operators != nil {
		edge, err := newAdminEdge(g, services, g.operators)
		if err != nil {
			return nil, err
		}
		edge.register(mux)
		besides = append(besides, func(srv *grpc.Server) { registerReflection(srv, edge.registry) })
	}
	var handler http.Handler = mux
	if len(besides) > 0 {
		handler = g.withGRPC(mux, besides)
	}
	// The limits are those that the HTTP port has by default.
	limits := config.Defaults().HTTP
	limits.TLS = cfg.TLS
	srv, err := newHTTPServer(limitAdmin(handler, limits), limits, listenerAdmin, log)
	if err != nil {
		return nil, err
	}
	if cfg.TLS != nil && cfg.TLS.ClientCAFile != "" {
		// Who has none may still ask for health and metrics.
		srv.TLSConfig.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return srv, nil
}

// limitAdmin gives callers so long to send their requests and to take what they
// are told. Profiles take as long as they are asked to.
func limitAdmin(next http.Handler, limits config.HTTP) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer unlimitGone(w, r)
		limitBodyTime(w, r, limits.BodyTimeout)
		if !strings.HasPrefix(r.URL.Path, "/debug/") {
			limitWrite(w, r, limits.BodyTimeout+limits.WriteTimeout) // an answer waits for the body's end
		}
		next.ServeHTTP(w, r)
	})
}

// withGRPC serves gRPC's own services to operators beside next, on the same port,
// and with them what gRPC says of services that there are not.
func (g *Gateway) withGRPC(next *http.ServeMux, register []func(*grpc.Server)) http.Handler {
	srv := grpc.NewServer(grpc.UnaryInterceptor(g.recoverUnary), grpc.StreamInterceptor(g.recoverStreams))
	for _, r := range register {
		r(srv)
	}
	guarded := g.operated(true, srv.ServeHTTP)
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
