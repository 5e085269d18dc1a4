package gateway

import (
	"net"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

// Where a document that is read elsewhere says that calls go, and what the page
// may call.
func TestDocumentServers(t *testing.T) {
	for _, tt := range []struct {
		name, address string
		tls           bool
		listening     net.Addr
		url, origin   string // empty: none
	}{
		{"all addresses", ":8080", false, nil, "http://{host}:8080", "http://*:8080"},
		{"all of IPv6", "[::]:8080", false, nil, "http://{host}:8080", "http://*:8080"},
		{"all of IPv4", "0.0.0.0:8443", true, nil, "https://{host}:8443", "https://*:8443"},
		{"one", "127.0.0.1:8080", false, nil, "http://127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"one of IPv6", "[::1]:8080", false, nil, "http://[::1]:8080", "http://[::1]:8080"},
		{"a name", "api.example.com:80", false, nil, "http://api.example.com:80", "http://api.example.com:80"},
		{"any port", "127.0.0.1:0", false, &net.TCPAddr{Port: 4711}, "http://127.0.0.1:4711", "http://127.0.0.1:*"},
		{"off", "off", false, nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config.HTTP{Address: tt.address, Errors: "problem"}
			if tt.tls {
				cfg.TLS = new(config.ServerTLS)
			}
			o := DocumentOptions(cfg, tt.listening)
			if o.Errors != "problem" {
				t.Errorf("errors %q", o.Errors)
			}
			var url, origin string
			if len(o.Servers) > 0 {
				url = o.Servers[0].URL
			}
			if origins := httpOrigins(cfg); len(origins) > 0 {
				origin = origins[0]
			}
			if url != tt.url || origin != tt.origin {
				t.Errorf("server %q, origin %q", url, origin)
			}
		})
	}
}
