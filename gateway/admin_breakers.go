package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// BreakerOrder is what POST /backends/{name}/breakers takes: an operator's word
// on the breakers of one method.
type BreakerOrder struct {
	// package.Service/Method.
	Method string `json:"method"`
	// The app whose calls it is about; absent: everybody's.
	App *string `json:"app,omitempty"`
	// open, closed, or auto: as the breaker itself would have it.
	State string `json:"state"`
	// How long it holds, such as 5m; absent: until there is another.
	For string `json:"for,omitempty"`
	// Who says so, for the log; it is told beside the address that it came from.
	By string `json:"by,omitempty"`
}

const (
	// maxOrderSize bounds the body of an order.
	maxOrderSize = 4 << 10
	// maxBy bounds the name of who orders.
	maxBy = 100
)

// serveBreakerOrder is POST /backends/{name}/breakers.
func (g *Gateway) serveBreakerOrder(w http.ResponseWriter, r *http.Request) {
	if code, why := refuseBrowsers(r); code != 0 {
		writeAdminError(w, code, why)
		return
	}
	name := r.PathValue("name")
	s := g.snapshot.Load()
	b := s.backends[name]
	if b == nil {
		s.noSuchBackend(w, name)
		return
	}
	sent, err := readOrder(http.MaxBytesReader(w, r.Body, maxOrderSize))
	if err != nil {
		writeAdminError(w, http.StatusBadRequest, err.Error())
		return
	}
	if g.operators != nil {
		sent.By = g.operators.Name(r.Context())
	}
	order, err := sent.compile(r.RemoteAddr)
	if err != nil {
		writeAdminError(w, http.StatusBadRequest, err.Error())
		return
	}
	if !s.routes(name, order.Method) {
		writeAdminError(w, http.StatusNotFound, fmt.Sprintf("no route leads to method %q of backend %q", order.Method, name))
		return
	}
	if change, ok := r.Context().Value(adminChangeKey{}).(*AdminChange); ok {
		sent.note(change, order)
	}
	if err := b.ForceBreaker(order); err != nil {
		code := http.StatusBadRequest
		if errors.Is(err, breaker.ErrTooManyForced) {
			code = http.StatusConflict
		}
		writeAdminError(w, code, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Breakers []BreakerView `json:"breakers"`
	}{viewBreakers(b, order.Method)})
}

// refuseBrowsers keeps web pages from changing anything: this port asks for no
// credential, and an operator's browser reaches it. Browsers say on each POST
// where it comes from, and only after a preflight, which is not answered here,
// do they send JSON. A page of the same origin is refused, too: by a name that
// is made to point here (DNS rebinding) any page is one.
func refuseBrowsers(r *http.Request) (code int, why string) {
	if r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != "" {
		return http.StatusForbidden, "web pages may not change anything here"
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return http.StatusUnsupportedMediaType, "the content type must be application/json"
	}
	return 0, ""
}

// routes tells whether a route leads to a backend's method.
func (s *snapshot) routes(backend, method string) bool {
	for _, r := range s.table.Routes() {
		if r.Backend == backend && r.FullMethod == method {
			return true
		}
	}
	return false
}

// readOrder reads the one JSON object of a body, without keys that are not known.
func readOrder(body io.Reader) (BreakerOrder, error) {
	var order BreakerOrder
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&order); err != nil {
		return BreakerOrder{}, fmt.Errorf("not an order: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return BreakerOrder{}, errors.New("not an order: there is more than one JSON value")
	}
	return order, nil
}

// note tells what an order is, which was found to make sense.
func (o BreakerOrder) note(change *AdminChange, order rpcproxy.BreakerOrder) {
	change.Fields = append(change.Fields, "method="+order.Method, "state="+o.State)
	if order.For > 0 {
		change.Fields = append(change.Fields, "for="+order.For.String())
	}
	if o.App != nil {
		change.App = *o.App
	}
}

// compile checks an order that came from an address.
func (o BreakerOrder) compile(from string) (rpcproxy.BreakerOrder, error) {
	out := rpcproxy.BreakerOrder{App: o.App, By: from}
	if host, _, err := net.SplitHostPort(from); err == nil {
		out.By = host
	}
	if o.Method == "" {
		return out, errors.New("method is missing: package.Service/Method")
	}
	out.Method = "/" + strings.TrimPrefix(o.Method, "/")
	if o.App != nil {
		if err := auth.ValidateApp(*o.App); err != nil {
			return out, fmt.Errorf("app: %w", err)
		}
	}
	switch o.State {
	case "open":
		out.State = new(breaker.Open)
	case "closed":
		out.State = new(breaker.Closed)
	case "auto":
	default:
		return out, errors.New("state must be open, closed or auto")
	}
	if o.For != "" {
		d, err := time.ParseDuration(o.For)
		switch {
		case err != nil || d <= 0:
			return out, errors.New("for must be a duration above 0, such as 5m")
		case out.State == nil:
			return out, errors.New("for goes with open and closed: auto holds until there is another order")
		}
		out.For = d
	}
	if len(o.By) > maxBy || slices.ContainsFunc([]rune(o.By), func(r rune) bool { return !unicode.IsPrint(r) }) {
		return out, fmt.Errorf("by must be up to %d printable bytes", maxBy)
	}
	if o.By != "" {
		out.By = o.By + " from " + out.By
	}
	return out, nil
}
