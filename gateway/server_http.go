package gateway

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/rpcgate/rpcgate/config"
)

// newHTTPServer makes the server of the HTTP port: HTTP/1.1 and HTTP/2, in clear
// text with prior knowledge or over TLS by ALPN. It has no limits in time of its
// own for bodies and answers, as a stream takes as long as it takes: the front
// ends set them as they read and write. section is where the config has it.
func newHTTPServer(h http.Handler, cfg config.HTTP, section string, log *slog.Logger) (*http.Server, error) {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: cfg.ReadHeaderTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    int(cfg.MaxHeaderSize),
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // broken callers, mostly
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: int(cfg.MaxConcurrentStreams)},
	}
	srv.Protocols.SetHTTP1(true)
	if cfg.TLS == nil {
		srv.Protocols.SetUnencryptedHTTP2(true)
		return srv, nil
	}
	srv.Protocols.SetHTTP2(true)
	tlsConfig, err := serverTLS(cfg.TLS, log)
	if err != nil {
		return nil, fmt.Errorf("%s.tls: %w", section, err)
	}
	srv.TLSConfig = tlsConfig
	return srv, nil
}
