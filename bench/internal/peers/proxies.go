package peers

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"connectrpc.com/vanguard"

	"github.com/rpcgate/rpcgate/bench/internal/catalogpb"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// serveVanguard serves REST, gRPC-Web and Connect through vanguard's transcoder
// before a reverse proxy, as its documentation sets it up.
func serveVanguard(lis net.Listener, backend string) error {
	proxy := reverseProxy(backend)
	var services []*vanguard.Service
	for _, name := range []string{
		shoppb.UserService_ServiceDesc.ServiceName, catalogpb.CatalogService_ServiceDesc.ServiceName,
	} {
		services = append(services, vanguard.NewService(name, proxy,
			vanguard.WithTargetProtocols(vanguard.ProtocolGRPC), vanguard.WithTargetCodecs(vanguard.CodecProto)))
	}
	transcoder, err := vanguard.NewTranscoder(services)
	if err != nil {
		return err
	}
	return serveHTTP(lis, transcoder)
}

// serveH2Proxy passes gRPC on with nothing but net/http.
func serveH2Proxy(lis net.Listener, backend string) error {
	srv := &http.Server{Handler: reverseProxy(backend), ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
	srv.Protocols.SetUnencryptedHTTP2(true)
	return srv.Serve(lis)
}

// reverseProxy goes to the backend by HTTP/2 in clear text.
func reverseProxy(backend string) *httputil.ReverseProxy {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: backend}) },
		Transport:     &http.Transport{Protocols: protocols},
		FlushInterval: -1,
	}
}
