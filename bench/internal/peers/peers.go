// Package peers owns what the gateway is measured against, and the backend
// behind all of them. Each peer is the least that a program can do for the same
// calls with the same libraries at their default settings: no authentication,
// no breaker, no metrics, no log.
package peers

import (
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// The kinds of process that a peer can be.
const (
	Backend     = "backend"      // UserService and CatalogService, answering at once
	JSONFloor   = "json-floor"   // a net/http handler that makes one raw-bytes Invoke
	GRPCGateway = "grpc-gateway" // generated grpc-gateway code
	GRPCFloor   = "grpc-floor"   // a grpc-go raw pass-through
	Vanguard    = "vanguard"     // connectrpc.com/vanguard before a reverse proxy
	H2Proxy     = "h2-proxy"     // net/http's reverse proxy over HTTP/2
	Load        = "load"         // LoadService, whose calls say how much they cost
)

// Serve serves the kind of peer on the listener, in front of the backend where
// it has one. It returns only when it cannot go on; a peer ends with its process.
func Serve(kind string, lis net.Listener, backend string) error {
	switch kind {
	case Backend:
		return serveBackend(lis)
	case Load:
		return serveLoad(lis)
	case Vanguard:
		return serveVanguard(lis, backend)
	case H2Proxy:
		return serveH2Proxy(lis, backend)
	case JSONFloor, GRPCGateway, GRPCFloor:
	default:
		return fmt.Errorf("unknown kind of peer %q", kind)
	}
	conn, err := grpc.NewClient(backend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("backend %s: %w", backend, err)
	}
	switch kind {
	case JSONFloor:
		return serveJSONFloor(lis, conn)
	case GRPCGateway:
		return serveGRPCGateway(lis, conn)
	default:
		return serveGRPCFloor(lis, conn)
	}
}
