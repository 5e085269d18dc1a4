package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/telemetry"
	"github.com/rpcgate/rpcgate/transcode"
)

// jsonFront is the front end of HTTP/JSON callers.
type jsonFront struct {
	g        *Gateway
	cfg      config.HTTP
	proxies  trustedProxies
	buffers  *buffers
	unrouted *telemetry.CallObserver
}

func newJSONFront(g *Gateway, cfg config.HTTP) (*jsonFront, error) {
	proxies, err := parseTrustedProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	return &jsonFront{
		g: g, cfg: cfg, proxies: proxies, buffers: new(buffers),
		unrouted: g.calls.BindUnrouted(protocolJSON),
	}, nil
}

func (f *jsonFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer f.g.abortPanicked(r.Context())
	snap := f.g.snapshot.Load()
	p := &jsonPeer{front: f, w: w, r: r}
	c := &p.call
	c.Protocol, c.Start, c.peer = protocolJSON, time.Now(), p
	c.RequestID = requestID(r.Header[headerRequestID])
	var forwardedFor string
	c.ClientIP, forwardedFor = f.proxies.clientIP(r.RemoteAddr, r.Header["X-Forwarded-For"])
	w.Header()[headerRequestID] = []string{c.RequestID}
	limitBodyTime(w, r, f.cfg.BodyTimeout)

	if isGRPC(r) {
		p.finishGRPC(f.g.unrouted(f.unrouted, errWrongPort)(r.Context(), c))
		return
	}
	if err := snap.table.MatchHTTP(r.Method, r.URL.EscapedPath(), &p.match); err != nil {
		var notAllowed *routes.MethodNotAllowedError
		if r.Method == http.MethodOptions && errors.As(err, &notAllowed) {
			_ = f.g.unrouted(f.unrouted, nil)(r.Context(), c)
			setAllow(w.Header(), notAllowed.Allow)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		p.finish(f.g.unrouted(f.unrouted, err)(r.Context(), c))
		return
	}
	c.Route = p.match.Route
	ctx := r.Context()
	f.fill(c, r, forwardedFor)
	if !c.Deadline.IsZero() {
		// As the gRPC server does it: the caller's time bounds everything,
		// from the look-up of the credential on.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.Deadline)
		defer cancel()
	}
	p.finish(snap.handlers[c.Route.Index](ctx, c))
}

// isGRPC tells a gRPC call, which this port cannot serve, from one of HTTP.
func isGRPC(r *http.Request) bool {
	kind, ok := strings.CutPrefix(r.Header.Get("Content-Type"), "application/grpc")
	return ok && (kind == "" || kind[0] == '+' || kind[0] == ';')
}

// fill reads from the request what the pipeline needs. What is wrong with it
// refuses the call inside the pipeline, where it is counted and logged.
func (f *jsonFront) fill(c *Call, r *http.Request, forwardedFor string) {
	c.Credential, c.Refusal = auth.CredentialFromHTTP(r.Header)
	timeout, err := callerTimeout(r.Header)
	if err == nil && timeout > 0 {
		c.Deadline = c.Start.Add(timeout)
	}
	if err == nil {
		c.Metadata, err = metadataFromHTTP(r, c.RequestID, c.ClientIP, forwardedFor)
	}
	if err == nil && r.Method == http.MethodHead && c.Route.ServerStreams {
		err = errHeadOfStream
	}
	c.Malformed = err
}

func setAllow(h http.Header, methods []string) { h.Set("Allow", strings.Join(methods, ", ")) }

// appendFailure appends an error as its body shows it, with the details'
// types taken from the route's backend.
func appendFailure(dst []byte, failure *callError, r *routes.Route) []byte {
	var types transcode.Resolver
	if r != nil {
		types = r.Types
	}
	return transcode.AppendStatus(dst, failure.Status().Proto(), types)
}
