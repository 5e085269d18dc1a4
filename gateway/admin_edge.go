package gateway

import (
	"context"
	"crypto/x509"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/openapi"
	"github.com/rpcgate/rpcgate/openapi/page"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/telemetry"
)

// adminBackend names the services of the admin port where routes have their
// backend's name.
const adminBackend = "rpcgate"

// adminEdge serves services on the admin port: an edge like that of the HTTP
// port, with a route table of its own whose calls end in this process, and
// operators in the place of apps. Its calls are logged like others and are not
// among those that metrics count.
type adminEdge struct {
	front    *httpFront
	document *page.File
	services []string
	registry *routes.Registry // what describes them
}

func newAdminEdge(g *Gateway, s *AdminServices, operators Operators) (*adminEdge, error) {
	cfg := config.Defaults()
	d, err := routes.Linked(s.Files...)
	if err != nil {
		return nil, fmt.Errorf("the admin services: %w", err)
	}
	backend := config.DefaultBackend(adminBackend)
	// As records are exported; and no field that is misspelt changes nothing in silence.
	backend.JSON = config.JSON{UseProtoNames: true, Int64AsNumbers: true}
	table, err := routes.Build([]routes.Input{{Backend: backend, Descriptors: d}}, nil)
	if err != nil {
		return nil, fmt.Errorf("the admin services: %w", err)
	}
	inner := &Gateway{
		cfg: cfg, log: g.log, accessLog: g.accessLog,
		calls: telemetry.NewCalls(nil), authOutcomes: telemetry.NewAuth(nil),
	}
	inner.unroutedCalls = newUnroutedObservers(inner.calls)
	inner.ready.on.Store(true)
	snap := &snapshot{
		generation: generation{cfg: cfg}, table: table,
		handlers: make([]Handler, len(table.Routes())), rules: make([]*headerRules, len(table.Routes())),
	}
	local := newLocalServices(s)
	for _, r := range table.Routes() {
		out := inner.newOutbound(r, local, filters{})
		snap.handlers[r.Index] = chain(out.handle, recoverPanics(g.log), inner.observe(newObservers(inner.calls, r)), operate(operators, r), checkRequest)
	}
	inner.snapshot.Store(snap)
	e := &adminEdge{
		registry: table.Registry(),
		document: page.NewFile("application/json", openapi.New(table, openapi.Options{
			Title: "rpcgate admin", Servers: []openapi.Server{{URL: "/"}}, Connect: true, Token: "An operator's token.",
		}).JSON()),
	}
	for _, s := range d.Services() {
		e.services = append(e.services, string(s.FullName()))
	}
	if e.front, err = newHTTPFront(inner, cfg.HTTP); err != nil {
		return nil, err
	}
	e.front.speaks[protocolWebSocket] = false // pages are kept out, and others have no need of it
	return e, nil
}

// register puts the services' paths into the admin port's mux.
func (e *adminEdge) register(mux *http.ServeMux) {
	mux.Handle("GET /admin/openapi.json", e.document)
	mux.Handle("/admin/", e)
	for _, name := range e.services {
		mux.Handle("/"+name+"/", e)
	}
}

// ServeHTTP serves one call. Who asks is found out in its pipeline, so that a
// refusal has the form of the caller's protocol.
func (e *adminEdge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if code, why := refusePages(r); code != 0 {
		writeAdminError(w, code, why)
		return
	}
	// The front has limits in time of its own, which a stream's messages renew.
	rc := http.NewResponseController(w)
	_, _ = rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}) // net/http's writers can
	e.front.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), operatorRequest{}, adminRequestOf(r))))
}

// refusePages keeps web pages out. A page cannot have an operator's token, but
// an operator's browser would present his certificate for it. Browsers say where
// a request comes from with all that could change something; and what they send
// without asking first is of three content types, which no call here is of.
func refusePages(r *http.Request) (code int, why string) {
	if r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != "" {
		return http.StatusForbidden, "web pages may not do anything here"
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch media {
	case "application/x-www-form-urlencoded", "multipart/form-data", "text/plain":
		return http.StatusUnsupportedMediaType, "the content type must be application/json"
	}
	return 0, ""
}

// adminRequestOf reads who asks; what is asked for is not known yet.
func adminRequestOf(r *http.Request) AdminRequest {
	return AdminRequest{From: hostOf(r.RemoteAddr), Token: bearerToken(r.Header), Certificate: clientCertificate(r)}
}

// noToken stands for an Authorization header that holds no bearer token, or more
// than one. It is nobody's: who means to be known by a token is not known by his
// certificate instead.
const noToken = "(no bearer token)"

// bearerToken is the token of the Authorization header; empty: there is no header.
func bearerToken(h http.Header) string {
	values := h["Authorization"]
	if len(values) == 0 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return noToken
	}
	return token
}

// clientCertificate is the caller's; nil: it has none that was verified.
func clientCertificate(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0][0]
}

// operate lets only operators through, to what they may do.
func operate(operators Operators, route *routes.Route) step {
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) error {
			r, _ := ctx.Value(operatorRequest{}).(AdminRequest)
			r.Method, r.Reads = strings.TrimPrefix(route.FullMethod, "/"), route.NoSideEffects
			ctx, err := operators.Admit(ctx, r)
			if err != nil {
				return admissionError(err)
			}
			return next(ctx, c)
		}
	}
}

// admissionError has a refusal told as it is.
func admissionError(err error) error {
	failure := &callError{cause: err}
	failure.backend = status.Convert(err)
	failure.Code, failure.Message = failure.backend.Code(), failure.backend.Message()
	return failure
}

// operated guards one of the gateway's own endpoints. Without operators it is
// open, as the port is to be private.
func (g *Gateway) operated(reads bool, next http.HandlerFunc) http.HandlerFunc {
	if g.operators == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		ask := adminRequestOf(r)
		ask.Method, ask.Reads = r.Method+" "+r.URL.Path, reads
		ctx, err := g.operators.Admit(r.Context(), ask)
		if err != nil {
			failure := describe(admissionError(err))
			failure.writeHints(w.Header())
			if failure.HTTPStatus() == http.StatusUnauthorized {
				w.Header().Set("Www-Authenticate", `Bearer realm="rpcgate admin"`)
			}
			writeAdminError(w, failure.HTTPStatus(), failure.Message)
			return
		}
		if reads {
			next(w, r.WithContext(ctx))
			return
		}
		change := &AdminChange{Method: ask.Method}
		answer := &answerCode{ResponseWriter: w, code: http.StatusInternalServerError} // of a handler that panics
		defer func() { g.operators.Served(ctx, *change, answer.err()) }()
		next(answer, r.WithContext(context.WithValue(ctx, adminChangeKey{}, change)))
	}
}

// answerCode remembers how a request was answered.
type answerCode struct {
	http.ResponseWriter
	code int
}

func (a *answerCode) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// err is the answer as a status, nil of a success.
func (a *answerCode) err() error {
	switch {
	case a.code < http.StatusBadRequest:
		return nil
	case a.code == http.StatusNotFound:
		return status.Error(codes.NotFound, "")
	case a.code == http.StatusConflict:
		return status.Error(codes.ResourceExhausted, "")
	case a.code < http.StatusInternalServerError:
		return status.Error(codes.InvalidArgument, "")
	default:
		return status.Error(codes.Internal, "")
	}
}
