package gateway

import (
	"errors"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/gateway/wire"
	"github.com/rpcgate/rpcgate/routes"
)

// rpcFront is the front end of callers who speak gRPC, gRPC-Web or Connect over
// net/http. Each method of each routed backend can be called at
// /package.Service/Method.
type rpcFront struct {
	*httpFront
	// The content types that methods can be called with, by whether they stream.
	acceptPost map[bool]string
}

func newRPCFront(f *httpFront) *rpcFront {
	return &rpcFront{httpFront: f, acceptPost: map[bool]string{false: acceptPost(f.speaks, false), true: acceptPost(f.speaks, true)}}
}

// rpcPeer is the caller's side of a call in any of these protocols.
type rpcPeer interface {
	peer
	// finish ends the answer with the pipeline's outcome.
	finish(error)
}

// serve serves one request, whose protocol is known.
func (f *rpcFront) serve(w http.ResponseWriter, r *http.Request, snap *snapshot, proto protocol) {
	form, get, err := rpcFormOf(r, proto)
	var p rpcPeer
	var c *rpcCall
	if form.enveloped {
		peer := new(envelopedPeer)
		p, c = peer, &peer.rpcCall
	} else {
		peer := &connectPeer{get: get}
		p, c = peer, &peer.rpcCall
	}
	c.front, c.w, c.r, c.form = f, w, r, form
	forwardedFor := f.begin(&c.call, proto, p, w, r)
	route, err := f.route(r, snap, form, err)
	if err != nil {
		limitBodyTime(w, r, f.cfg.BodyTimeout)
		if refusal, ok := errors.AsType[*refusalError](err); ok {
			_ = f.unrouted(r.Context(), &c.call, err)
			limitWrite(w, r, f.cfg.WriteTimeout)
			refusal.write(w)
			return
		}
		p.finish(f.unrouted(r.Context(), &c.call, err))
		return
	}
	snap.bind(&c.call, route)
	c.call.Credential, c.call.Refusal = auth.CredentialFromRPC(r.Header)
	c.call.Malformed = c.fill(get, forwardedFor)
	c.openBody()
	defer c.call.leave()
	p.finish(f.run(r.Context(), &c.call, snap))
}

// refusalError is a request that does not get as far as a call in its protocol:
// it is answered in HTTP's words, as the protocols have it, and in plain text for
// whoever tries a method out by hand.
type refusalError struct {
	failure    *callError
	acceptPost string // for 415
}

func (e *refusalError) Error() string { return e.failure.Error() }

func (e *refusalError) Unwrap() error { return e.failure }

func (e *refusalError) write(w http.ResponseWriter) {
	h := w.Header()
	if e.acceptPost != "" {
		h.Set("Accept-Post", e.acceptPost)
	}
	if e.failure.HTTPStatus() == http.StatusHTTPVersionNotSupported {
		// A caller that expects HTTP/2 may wait for what never comes.
		h.Set("Connection", "close")
	}
	e.failure.writeHints(h)
	text := e.failure.Message
	if e.acceptPost != "" {
		text += "; it is with " + e.acceptPost
	}
	http.Error(w, text, e.failure.HTTPStatus())
}

// route finds the request's route, and refuses what the protocol does not have
// for a method of its kind. formErr says what is wrong with the form.
func (f *rpcFront) route(r *http.Request, snap *snapshot, form rpcForm, formErr error) (*routes.Route, error) {
	if !f.speaks[form.proto] {
		return nil, errWrongPort
	}
	route, err := snap.table.MatchGRPC(r.URL.Path)
	if err != nil {
		return nil, rpcUnrouted(err, form.proto)
	}
	streams := route.ClientStreams || route.ServerStreams
	byGet := form.proto == protocolConnect && route.NoSideEffects && !streams
	switch {
	case r.Method == http.MethodGet && byGet:
	case r.Method != http.MethodPost:
		return nil, notByMethod(byGet)
	}
	switch {
	case formErr != nil, form.proto == protocolConnect && form.enveloped != streams, form.json && route.Transcoder == nil:
		return nil, &refusalError{failure: errCodec, acceptPost: f.acceptPost[streams]}
	case form.proto == protocolGRPC && r.ProtoMajor < 2:
		return nil, &refusalError{failure: errNeedsHTTP2}
	}
	return route, nil
}

// notByMethod is a 405 with the HTTP methods that a method can be called by.
func notByMethod(byGet bool) error {
	allow := []string{http.MethodPost}
	if byGet {
		allow = []string{http.MethodGet, http.MethodPost}
	}
	return &refusalError{failure: &callError{
		Code: codes.Unimplemented, Reason: "METHOD_NOT_ALLOWED", httpStatus: http.StatusMethodNotAllowed,
		Message: "the RPC is not called by this HTTP method", allow: allow,
	}}
}

// rpcUnrouted makes "no route" what servers of the protocol say of methods that
// they do not have.
func rpcUnrouted(err error, proto protocol) error {
	failure := *describe(grpcUnrouted(err))
	if failure.Reason == "NO_ROUTE" && proto == protocolConnect {
		failure.httpStatus = http.StatusNotFound // and not the code's 501
	}
	return &failure
}

// fill reads from the request what the pipeline needs besides a credential. What
// is wrong with it refuses the call inside the pipeline.
func (c *rpcCall) fill(get *wire.ConnectGet, forwardedFor string) error {
	h := c.r.Header
	if err := c.checkVersion(get); err != nil {
		return err
	}
	if err := c.negotiate(get); err != nil {
		return err
	}
	name, parse := headerGRPCTimeout, wire.ParseGRPCTimeout
	if c.form.proto == protocolConnect {
		name, parse = headerConnectTimeout, wire.ParseConnectTimeout
	}
	if values := h[name]; len(values) > 0 {
		timeout, ok := parse(values[0])
		if !ok || len(values) > 1 {
			return badTimeout(name)
		}
		c.call.Deadline = c.call.Start.Add(timeout)
	}
	var err error
	c.call.Metadata, err = metadataFromRPC(c.r, c.form.proto, c.front.context, c.call.rules.forRequest(), c.call.RequestID, c.call.ClientIP, forwardedFor)
	return err
}

const (
	headerConnectTimeout = "Connect-Timeout-Ms"
	headerConnectVersion = "Connect-Protocol-Version"
)

// checkVersion refuses versions of Connect to come.
func (c *rpcCall) checkVersion(get *wire.ConnectGet) error {
	switch {
	case c.form.proto != protocolConnect:
		return nil
	case get != nil && !get.HasMessage:
		return badRequest("BAD_MESSAGE", "the parameter message is missing")
	case get != nil && get.Version != "" && get.Version != "v1":
		return badRequest("BAD_PROTOCOL_VERSION", `the parameter connect must be "v1"`)
	case get == nil && len(c.r.Header[headerConnectVersion]) > 0 && c.r.Header[headerConnectVersion][0] != "1":
		return badRequest("BAD_PROTOCOL_VERSION", headerConnectVersion+` must be "1"`)
	}
	return nil
}

// negotiate settles how the request is compressed and how the answer may be. An
// answer is compressed as the request is, or as the caller says it can read.
func (c *rpcCall) negotiate(get *wire.ConnectGet) error {
	sent, accepted := c.encodingHeaders()
	name := strings.Join(c.r.Header[sent], ",") // of several there is none that is known
	if get != nil {
		name = get.Compression
	}
	all := c.front.compressors
	if name != "" && name != wire.Identity {
		if c.sent = all.Find(name); c.sent == nil {
			c.w.Header()[accepted] = []string{all.Names()}
			return errCompression
		}
	}
	if c.answered = c.sent; c.answered == nil {
		c.answered = all.Negotiate(strings.Join(c.r.Header[accepted], ","))
	}
	if c.form.proto == protocolGRPC && c.sent != nil {
		c.call.request.Compressor = backendCompressor(name)
	}
	return nil
}

// encodingHeaders names the headers that say how messages are compressed, and
// how they may be.
func (c *rpcCall) encodingHeaders() (sent, accepted string) {
	switch {
	case c.form.proto != protocolConnect:
		return "Grpc-Encoding", "Grpc-Accept-Encoding"
	case c.form.enveloped:
		return "Connect-Content-Encoding", "Connect-Accept-Encoding"
	default:
		return "Content-Encoding", "Accept-Encoding"
	}
}
