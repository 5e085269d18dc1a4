package gateway

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/auth"
)

// webSocketProtocol is the subprotocol of the connections: one JSON message a
// text frame.
const webSocketProtocol = "rpcgate.json"

// wsFront is the front end of WebSocket callers: one connection is one call, of
// the route at its path, whatever the method streams. See docs/websocket.md.
type wsFront struct {
	*httpFront
	origins origins
	open    *upgrades
}

// serve serves one handshake, and the call that comes of it. Until the first
// message is asked for, which is after the call was authenticated and let
// through, it is answered like any HTTP request; from then on it is a WebSocket.
func (f *wsFront) serve(w http.ResponseWriter, r *http.Request, snap *snapshot) {
	p := &wsPeer{front: f, w: w, r: r}
	c := &p.call
	forwardedFor := f.begin(c, protocolWebSocket, p, w, r)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	p.cancel = cancel
	if err := snap.table.MatchStream(r.URL.EscapedPath(), &p.match); err != nil {
		p.finish(f.unrouted(ctx, c, err))
		return
	}
	snap.bind(c, p.match.Route)
	if c.Route.ClientStreams && c.Route.Body == "" {
		// The route's HTTP method has no body; its frames are whole messages.
		if whole, err := snap.table.MatchGRPC(c.Route.FullMethod); err == nil {
			p.whole = whole.Transcoder
		}
	}
	f.fill(c, r, forwardedFor)
	defer context.AfterFunc(ctx, p.hurry)()
	defer c.leave()
	p.finish(f.run(ctx, c, snap))
}

// fill reads from the handshake what the pipeline needs, as [jsonFront.fill]
// does from a request.
func (f *wsFront) fill(c *Call, r *http.Request, forwardedFor string) {
	c.Credential, c.Refusal = auth.CredentialFromWebSocket(r.Header)
	timeout, err := callerTimeout(r.Header)
	if err == nil && timeout > 0 {
		c.Deadline = c.Start.Add(timeout)
	}
	if err == nil {
		c.Metadata, err = metadataFromHTTP(r, f.context, c.rules.forRequest(), c.RequestID, c.ClientIP, forwardedFor)
	}
	if err == nil && !f.origins.allow(r) {
		err = errOrigin
	}
	if err == nil {
		err = checkHandshake(r)
	}
	c.Malformed = err
}

var (
	errOrigin = &callError{
		Code: codes.PermissionDenied, Reason: "ORIGIN_NOT_ALLOWED",
		Message: "pages of this origin may not open WebSockets here",
	}
	errWebSocketVersion = &callError{
		Code: codes.InvalidArgument, Reason: "BAD_HANDSHAKE", httpStatus: http.StatusUpgradeRequired,
		Message: "this is not a WebSocket handshake of version 13",
	}
)

// checkHandshake checks what RFC 6455, section 4.2.1, has a server check.
func checkHandshake(r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(r.Header.Get("Sec-Websocket-Key")))
	switch {
	case !r.ProtoAtLeast(1, 1):
		return badRequest("BAD_HANDSHAKE", "a WebSocket handshake takes HTTP/1.1")
	case !hasToken(r.Header["Connection"], "upgrade"):
		return badRequest("BAD_HANDSHAKE", "the header Connection does not have Upgrade")
	case r.Header.Get("Sec-Websocket-Version") != "13":
		return errWebSocketVersion
	case err != nil || len(key) != 16 || len(r.Header["Sec-Websocket-Key"]) != 1:
		return badRequest("BAD_HANDSHAKE", "the header Sec-WebSocket-Key is not base64 of 16 bytes")
	case hasBody(r): // whose bytes would be taken for frames
		return badRequest("BAD_HANDSHAKE", "a WebSocket handshake has no body")
	}
	return nil
}

// hasToken tells whether a header's comma-separated list has a token, without
// regard to case.
func hasToken(lines []string, token string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		for t := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
		return false
	})
}

// sameHost tells whether an origin is that of a host's own pages.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}
