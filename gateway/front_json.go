package gateway

import (
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
	snap := f.g.snapshot.Load()
	p := &jsonPeer{front: f, w: w, r: r}
	c := &p.call
	c.Protocol, c.Start, c.peer = protocolJSON, time.Now(), p
	c.RequestID = requestID(r.Header[headerRequestID])
	var forwardedFor string
	c.ClientIP, forwardedFor = f.proxies.clientIP(r.RemoteAddr, r.Header["X-Forwarded-For"])
	w.Header()[headerRequestID] = []string{c.RequestID}
	limitBodyTime(w, r, f.cfg.BodyTimeout)

	if err := snap.table.MatchHTTP(r.Method, r.URL.EscapedPath(), &p.match); err != nil {
		if r.Method == http.MethodOptions && answerOptions(w, err) {
			return
		}
		p.finish(f.g.unrouted(f.unrouted, err)(r.Context(), c))
		return
	}
	c.Route = p.match.Route
	c.traffic.keep = c.Route.LogBodies
	p.finish(snap.handlers[c.Route.Index](r.Context(), f.fill(c, r, forwardedFor)))
}

// fill reads from the request what the pipeline needs. What is wrong with it
// refuses the call inside the pipeline, where it is counted and logged.
func (f *jsonFront) fill(c *Call, r *http.Request, forwardedFor string) *Call {
	c.Credential, c.Refusal = auth.CredentialFromHTTP(r.Header)
	timeout, err := callerTimeout(r.Header)
	if err == nil && timeout > 0 {
		c.Deadline = c.Start.Add(timeout)
	}
	if err == nil {
		c.Metadata, err = metadataFromHTTP(r, c.RequestID, c.ClientIP, forwardedFor)
	}
	c.Malformed = err
	return c
}

// answerOptions answers OPTIONS for a path that has routes for other methods.
func answerOptions(w http.ResponseWriter, err error) bool {
	var notAllowed *routes.MethodNotAllowedError
	if !errors.As(err, &notAllowed) {
		return false
	}
	setAllow(w.Header(), notAllowed.Allow)
	w.WriteHeader(http.StatusNoContent)
	return true
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
