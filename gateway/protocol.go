package gateway

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/telemetry"
)

// protocol is what a caller speaks.
type protocol uint8

const (
	protocolJSON protocol = iota
	protocolGRPC
	protocolGRPCWeb
	protocolConnect
	protocolWebSocket
	protocolCount
)

// String names the protocol as the config, metrics and logs do.
func (p protocol) String() string {
	switch p {
	case protocolJSON:
		return "json"
	case protocolGRPC:
		return "grpc"
	case protocolGRPCWeb:
		return "grpc_web"
	case protocolConnect:
		return "connect"
	case protocolWebSocket:
		return "websocket"
	default:
		return "unknown"
	}
}

// protocolOf tells the protocols of the HTTP port apart, by what only one of
// them sends. A Connect call that does not say what it is looks like JSON; see
// [httpFront.ServeHTTP].
func protocolOf(r *http.Request) protocol {
	kind, ok := strings.CutPrefix(strings.ToLower(contentType(r.Header)), "application/")
	switch {
	case !ok:
	case isKind(kind, "grpc"):
		return protocolGRPC
	case isKind(kind, "grpc-web"), isKind(kind, "grpc-web-text"):
		return protocolGRPCWeb
	case strings.HasPrefix(kind, "connect+"), isKind(kind, "proto"):
		return protocolConnect
	}
	switch {
	case len(r.Header["Connect-Protocol-Version"]) > 0:
		return protocolConnect
	case r.Method == http.MethodGet && isUpgrade(r.Header):
		return protocolWebSocket
	}
	return protocolJSON
}

func contentType(h http.Header) string {
	if v := h["Content-Type"]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// isKind tells whether a media subtype is name, whatever its codec and parameters.
func isKind(kind, name string) bool {
	rest, ok := strings.CutPrefix(kind, name)
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// isUpgrade tells a request to change to WebSocket.
func isUpgrade(h http.Header) bool {
	v := h["Upgrade"]
	return len(v) > 0 && strings.EqualFold(v[0], "websocket")
}

// observers are the observers of one route's calls, one for each protocol that
// it was called by. They are bound when they are first needed: an unused series
// costs the scraper as much as a used one.
type observers struct {
	calls          *telemetry.Calls
	backend, label string
	accounts       *accounts // nil: the calls are nobody's
	bound          [protocolCount]atomic.Pointer[telemetry.CallObserver]
}

func newObservers(calls *telemetry.Calls, r *routes.Route) *observers {
	o := &observers{calls: calls, backend: r.Backend, label: r.Label}
	if r.HTTPMethod == "" {
		o.of(protocolGRPC)
	} else {
		o.of(protocolJSON)
	}
	return o
}

// with gives the observers, which account calls, too.
func (o *observers) with(a *accounts) *observers {
	o.accounts = a
	return o
}

// newUnroutedObservers are those of calls that no route matched.
func newUnroutedObservers(calls *telemetry.Calls) *observers {
	o := &observers{calls: calls}
	o.of(protocolJSON)
	o.of(protocolGRPC)
	return o
}

func (o *observers) of(p protocol) *telemetry.CallObserver {
	if bound := o.bound[p].Load(); bound != nil {
		return bound
	}
	// Two calls may both come here; both get the same series.
	bound := o.calls.Bind(o.backend, o.label, p.String())
	o.bound[p].Store(bound)
	return bound
}
