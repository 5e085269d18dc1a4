package gateway

import (
	"net/http"
	"slices"
	"time"

	"github.com/rs/cors"

	"github.com/rpcgate/rpcgate/config"
)

// withCORS lets web pages of other origins call, where the config names some.
// It stands before everything else: a preflight carries no credential and
// reaches no route, and errors are readable to the pages as answers are.
func withCORS(next http.Handler, port config.HTTP) http.Handler {
	cfg := port.CORS
	if len(cfg.AllowedOrigins) == 0 {
		return next // the library takes no origin for all of them
	}
	maxAge := int(cfg.MaxAge / time.Second)
	if maxAge == 0 {
		maxAge = -1 // said, and not left to the browser
	}
	h := cors.New(cors.Options{
		AllowedOrigins:   cfg.AllowedOrigins,
		AllowedMethods:   cfg.AllowedMethods,
		AllowedHeaders:   slices.Concat(protocolRequestHeaders(), cfg.AllowedHeaders),
		ExposedHeaders:   slices.Concat(protocolResponseHeaders(), cfg.ExposedHeaders),
		AllowCredentials: cfg.AllowCredentials,
		MaxAge:           maxAge,
	}).Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			limitWrite(w, r, port.WriteTimeout) // preflights are answered here
		}
		h.ServeHTTP(w, r)
	})
}

// protocolRequestHeaders are what browser clients of JSON, gRPC-Web and Connect
// send, credentials included.
func protocolRequestHeaders() []string {
	return []string{
		"Accept", "Accept-Language", "Content-Type", "Content-Encoding", "X-Requested-With",
		"Authorization", "X-App", "X-Token",
		"X-Request-Id", headerRequestTimeout, "Last-Event-Id", "Traceparent", "Tracestate",
		headerGRPCTimeout, "Grpc-Encoding", "Grpc-Accept-Encoding", "X-Grpc-Web", "X-User-Agent",
		"Connect-Protocol-Version", "Connect-Timeout-Ms", "Connect-Content-Encoding", "Connect-Accept-Encoding",
	}
}

// protocolResponseHeaders are what such clients read.
func protocolResponseHeaders() []string {
	return []string{
		"X-Request-Id", "Retry-After", "RateLimit", "RateLimit-Policy", "Www-Authenticate", "Allow", "Content-Encoding",
		"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin", "Grpc-Encoding", "Grpc-Accept-Encoding",
		"Connect-Content-Encoding", "Connect-Accept-Encoding",
	}
}

// origins tells whose pages may open a WebSocket: those that CORS lets call,
// and some more. The zero value allows none but the gateway's own.
type origins struct{ allowed *cors.Cors }

func newOrigins(cfg config.HTTP) origins {
	all := slices.Concat(cfg.CORS.AllowedOrigins, cfg.Streams.AllowedOrigins)
	if len(all) == 0 {
		return origins{}
	}
	return origins{allowed: cors.New(cors.Options{AllowedOrigins: all})}
}

// allow says whether a request may come from where it does. What is no browser
// names no origin. A page of the gateway's own host is of one origin with it,
// whichever scheme a proxy in between has made of the page's.
func (o origins) allow(r *http.Request) bool {
	values := r.Header["Origin"]
	switch {
	case len(values) == 0:
		return true
	case len(values) > 1:
		return false
	}
	return sameHost(values[0], r.Host) || o.allowed != nil && o.allowed.OriginAllowed(r)
}
