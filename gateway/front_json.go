package gateway

import (
	"net/http"
	"strings"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/gateway/wire"
)

// jsonFront is the front end of HTTP/JSON callers.
type jsonFront struct {
	*httpFront
	encodings []*wire.Compression // offered for answers, the preferred one first
	vary      []string            // the Vary header of what is compressed by Accept-Encoding; shared, only read
	jsonType  []string            // the Content-Type header of answers in JSON; shared, only read
}

func newJSONFront(f *httpFront) *jsonFront {
	return &jsonFront{
		httpFront: f,
		encodings: compressions(f.compressors, f.cfg.Compression.Encodings),
		vary:      []string{"Accept-Encoding"},
		jsonType:  []string{"application/json"},
	}
}

// serve serves one request, or gives it to the RPC front end: what looks like
// JSON but has no route of its own may be a Connect call.
func (f *jsonFront) serve(w http.ResponseWriter, r *http.Request, snap *snapshot) {
	p := &jsonPeer{front: f, w: w, r: r}
	err := snap.table.MatchHTTP(r.Method, r.URL.EscapedPath(), &p.match)
	switch {
	case err != nil && f.isBareConnect(r, snap):
		f.rpc.serve(w, r, snap, protocolConnect)
		return
	case !f.speaks[protocolJSON]:
		f.refuse(w, r, errWrongPort)
		return
	}
	c := &p.call
	forwardedFor := f.begin(c, protocolJSON, p, w, r)
	limitBodyTime(w, r, f.cfg.BodyTimeout)
	if err != nil {
		if e := notAllowed(err); e != nil && r.Method == http.MethodOptions {
			_ = f.unrouted(r.Context(), c, nil)
			setAllow(w.Header(), e.Allow)
			limitWrite(w, r, f.cfg.WriteTimeout)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if f.docs.answer(r, err) {
			limitWrite(w, r, f.cfg.WriteTimeout)
			f.docs.ServeHTTP(w, r)
			return
		}
		p.finish(f.unrouted(r.Context(), c, err))
		return
	}
	snap.bind(c, p.match.Route)
	f.fill(c, r, forwardedFor)
	ctx := r.Context()
	if c.Route.ClientStreams || c.Route.ServerStreams {
		var done func()
		ctx, done = p.prepare()
		defer done()
	}
	defer c.leave()
	p.finish(f.run(ctx, c, snap))
}

// refuse answers a request that this port does not serve.
func (f *jsonFront) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := &jsonPeer{front: f, w: w, r: r}
	f.begin(&p.call, protocolJSON, p, w, r)
	limitBodyTime(w, r, f.cfg.BodyTimeout)
	p.finish(f.unrouted(r.Context(), &p.call, err))
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
		c.Metadata, err = metadataFromHTTP(r, f.context, c.rules.forRequest(), c.RequestID, c.ClientIP, forwardedFor)
	}
	if err == nil && r.Method == http.MethodHead && (c.Route.ServerStreams || c.Route.ClientStreams) {
		err = errHeadOfStream
	}
	c.Malformed = err
}

func setAllow(h http.Header, methods []string) { h.Set("Allow", strings.Join(methods, ", ")) }
