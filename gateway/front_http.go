package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/gateway/wire"
	"github.com/rpcgate/rpcgate/routes"
)

// httpFront is the handler of the HTTP port: it tells the protocols apart, and
// hands each request to the front end of its own.
type httpFront struct {
	g       *Gateway
	cfg     config.HTTP
	proxies trustedProxies
	context contextHeaders
	buffers *buffers
	speaks  [protocolCount]bool
	// gzip and zstd, bounded by the largest body.
	compressors *wire.Compressors
	json        *jsonFront
	rpc         *rpcFront
	ws          *wsFront
	docs        *docs // nil: not on this port
}

func newHTTPFront(g *Gateway, cfg config.HTTP) (*httpFront, error) {
	proxies, err := parseTrustedProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	f := &httpFront{
		g: g, cfg: cfg, proxies: proxies, context: newContextHeaders(g.cfg.ContextHeaders), buffers: new(buffers),
		compressors: wire.NewCompressors(int64(cfg.MaxBodySize)),
	}
	for p := range protocolCount {
		f.speaks[p] = slices.Contains(cfg.Protocols, p.String())
	}
	f.speaks[protocolWebSocket] = f.speaks[protocolJSON]
	f.json = newJSONFront(f)
	f.rpc = newRPCFront(f)
	f.ws = &wsFront{httpFront: f, origins: newOrigins(cfg), open: new(upgrades)}
	if cfg.OpenAPI {
		if f.docs, err = newEdgeDocs(g); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// ServeHTTP serves one request, of whichever protocol.
func (f *httpFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer f.g.abortPanicked(r.Context())
	defer unlimitGone(w, r)
	snap := f.g.snapshot.Load()
	p := protocolOf(r)
	if p == protocolJSON && r.Method == http.MethodGet && f.isConnectGet(r, snap) {
		p = protocolConnect
	}
	switch {
	case p == protocolGRPC, p == protocolGRPCWeb, p == protocolConnect:
		f.rpc.serve(w, r, snap, p)
	case p == protocolJSON:
		f.json.serve(w, r, snap)
	case !f.speaks[p]:
		f.json.refuse(w, r, errWrongPort)
	default:
		f.ws.serve(w, r, snap)
	}
}

// isConnectGet tells a Connect call by GET, which says so in its query alone.
func (f *httpFront) isConnectGet(r *http.Request, snap *snapshot) bool {
	if r.URL.RawQuery == "" || !f.isBareConnect(r, snap) {
		return false
	}
	get, ok := wire.ParseConnectGet(r.URL.RawQuery)
	return ok && get.Version != ""
}

// isBareConnect tells what comes to a method's own path, and is a Connect call
// unless HTTP has a route there: unary calls need not say what they are.
func (f *httpFront) isBareConnect(r *http.Request, snap *snapshot) bool {
	if !f.speaks[protocolConnect] || r.Method != http.MethodPost && r.Method != http.MethodGet {
		return false
	}
	_, err := snap.table.MatchGRPC(r.URL.Path)
	return err == nil
}

// begin fills in what every call over HTTP has, whatever its protocol and
// whether or not there is a route for it. It gives the X-Forwarded-For that the
// backend is to see; empty: the caller's own address.
func (f *httpFront) begin(c *Call, proto protocol, from peer, w http.ResponseWriter, r *http.Request) (forwardedFor string) {
	c.Protocol, c.Start, c.peer = proto, time.Now(), from
	c.RequestID = requestID(r.Header[headerRequestID])
	if n := r.ContentLength; n <= int64(f.cfg.MaxBodySize) { // else it is refused for that, and not read
		c.length = n
	}
	c.ClientIP, forwardedFor = f.proxies.clientIP(r.RemoteAddr, r.Header["X-Forwarded-For"])
	w.Header()[headerRequestID] = []string{c.RequestID}
	return forwardedFor
}

// run sends a call that has a route through its pipeline, with the caller's
// deadline over everything from the look-up of the credential on, as the gRPC
// server has it.
//
// The call keeps its places until it is answered, as it may be after this: whoever
// runs it has it leave.
func (f *httpFront) run(ctx context.Context, c *Call, snap *snapshot) error {
	c.answered = true
	if !c.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.Deadline)
		defer cancel()
	}
	return snap.handlers[c.Route.Index](ctx, c)
}

// unrouted sends a call that no route matched through what is left of the
// pipeline: it fails with err.
func (f *httpFront) unrouted(ctx context.Context, c *Call, err error) error {
	return f.g.unrouted(err)(ctx, c)
}

// notAllowed tells a path that has routes, but for other HTTP methods.
func notAllowed(err error) *routes.MethodNotAllowedError {
	var e *routes.MethodNotAllowedError
	errors.As(err, &e)
	return e
}
