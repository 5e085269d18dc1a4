package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// discoveryWait is how long a question for a backend waits for the first list of
// its endpoints.
const discoveryWait = 2 * time.Second

// BackendView is a backend as GET /backends shows it to operators.
type BackendView struct {
	Name string `json:"name"`
	// The gRPC target that is dialled.
	Target string `json:"target"`
	// What finds its endpoints: endpoints, etcd, consul, kubernetes, or the
	// scheme of the configured target.
	Discovery string `json:"discovery"`
	// Whether calls can be expected to reach it.
	Healthy bool `json:"healthy"`
	// Calls in flight, and how many there may be.
	Concurrency limits.ConcurrencyView `json:"concurrency"`
	// How many retries and hedges there may be at once now.
	RetryBudget int `json:"retry_budget"`
	// As discovery tells of them; none of xds targets, whose are not told.
	Endpoints []EndpointView `json:"endpoints"`
	// Those of methods that were called, or that an operator has had a word on.
	Breakers []BreakerView `json:"breakers"`
}

// EndpointView is an endpoint of a backend.
type EndpointView = fleet.EndpointView

// BreakerView is a breaker of one of a backend's methods.
type BreakerView struct {
	// The full method name, "/package.Service/Method".
	Method string `json:"method"`
	// The app whose calls alone it guards; nil: it guards everybody's.
	App *string `json:"app,omitempty"`
	// closed, half_open or open.
	State string `json:"state"`
	// Since when.
	Since time.Time `json:"since"`
	// Why it is not closed, in words; empty while it is.
	Reason string `json:"reason,omitempty"`
	// The share of calls that it refuses now, 0 to 1.
	RefusedShare float64 `json:"refused_share"`
	// The calls of the latest time.
	Window WindowView `json:"window"`
	// What made it open: what the window held then.
	OpenedOn *WindowView `json:"opened_on,omitempty"`
	// The last failure that counted.
	LastFailure *FailureView `json:"last_failure,omitempty"`
	// When it lets the next call through, at the latest, while it is not closed.
	NextProbe *time.Time `json:"next_probe,omitempty"`
	// An operator's word, which goes before what it would do by itself.
	Forced *ForcedView `json:"forced,omitempty"`
}

// WindowView is calls that were counted.
type WindowView struct {
	Seconds   float64 `json:"seconds"` // over how long
	Successes int64   `json:"successes"`
	Failures  int64   `json:"failures"`
	Refusals  int64   `json:"refusals"`
}

// FailureView is a call that failed.
type FailureView struct {
	Code string    `json:"code"`
	At   time.Time `json:"at"`
}

// ForcedView is what an operator has said of a breaker.
type ForcedView struct {
	State string     `json:"state"` // open or closed
	By    string     `json:"by"`
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until,omitempty"` // nil: until there is another word
}

// serveBackends is GET /backends: all of them, in the configuration's order.
func (g *Gateway) serveBackends(w http.ResponseWriter, r *http.Request) {
	n := g.current()
	answer := struct {
		Backends []BackendView `json:"backends"`
	}{make([]BackendView, len(n.cfg.Backends))}
	var asking sync.WaitGroup
	for i := range n.cfg.Backends {
		asking.Go(func() { answer.Backends[i] = n.view(r.Context(), &n.cfg.Backends[i]) })
	}
	asking.Wait()
	writeJSON(w, http.StatusOK, answer)
}

// serveBackend is GET /backends/{name}.
func (g *Gateway) serveBackend(w http.ResponseWriter, r *http.Request) {
	n := g.current()
	for i := range n.cfg.Backends {
		if b := &n.cfg.Backends[i]; b.Name == r.PathValue("name") {
			writeJSON(w, http.StatusOK, n.view(r.Context(), b))
			return
		}
	}
	n.noSuchBackend(w, r.PathValue("name"))
}

// noSuchBackend tells an operator what backends there are instead.
func (n *generation) noSuchBackend(w http.ResponseWriter, name string) {
	names := make([]string, len(n.cfg.Backends))
	for i := range n.cfg.Backends {
		names[i] = n.cfg.Backends[i].Name
	}
	writeAdminError(w, http.StatusNotFound, fmt.Sprintf("there is no backend %.100q; there are: %s", name, strings.Join(names, ", ")))
}

func writeAdminError(w http.ResponseWriter, code int, text string) {
	writeJSON(w, code, map[string]string{"error": text})
}

func (n generation) view(ctx context.Context, cfg *config.Backend) BackendView {
	ctx, cancel := context.WithTimeout(ctx, discoveryWait)
	defer cancel()
	b := n.backends[cfg.Name]
	return BackendView{
		Name: cfg.Name, Target: b.Target(), Discovery: discoveryOf(cfg), Healthy: b.Healthy(), Concurrency: b.Concurrency(),
		RetryBudget: b.RetryBudget(),
		Endpoints:   append([]EndpointView{}, b.Endpoints(ctx)...), Breakers: viewBreakers(b, ""),
	}
}

// discoveryOf names what finds a backend's endpoints.
func discoveryOf(b *config.Backend) string {
	switch {
	case len(b.Endpoints) > 0:
		return "endpoints"
	case b.Etcd != nil:
		return "etcd"
	case b.Consul != nil:
		return "consul"
	case b.Kubernetes != nil:
		return "kubernetes"
	}
	switch scheme, _, _ := strings.Cut(b.Target, ":"); scheme {
	case "unix", "unix-abstract", "xds", "passthrough", "ipv4", "ipv6":
		return scheme
	default:
		return "dns" // gRPC's default for a target without a scheme
	}
}

// viewBreakers shows a backend's breakers, of one method or, if it is empty, of
// all that were called.
func viewBreakers(b *rpcproxy.Backend, method string) []BreakerView {
	all := b.Breakers()
	views := make([]BreakerView, 0, len(all))
	for i := range all {
		if method == "" || all[i].Method == method {
			views = append(views, viewBreaker(&all[i]))
		}
	}
	return views
}

func viewBreaker(b *rpcproxy.BreakerView) BreakerView {
	v := BreakerView{
		Method: b.Method, State: b.State.String(), Since: b.Since, Reason: b.Reason(), RefusedShare: b.Refused,
		Window: viewWindow(b.Window, b.WindowLength), NextProbe: timeOrNil(b.NextProbe),
	}
	if b.AppOnly {
		v.App = &b.App
	}
	if o := b.Opening; o != nil {
		v.OpenedOn = new(viewWindow(o.Counts, o.Over))
	}
	if f := b.LastFailure; f != nil {
		v.LastFailure = &FailureView{Code: f.Why, At: f.At}
	}
	if f := b.Forced; f != nil {
		v.Forced = &ForcedView{State: f.State.String(), By: f.By, Since: f.Since, Until: timeOrNil(f.Until)}
	}
	return v
}

func viewWindow(c breaker.Counts, over time.Duration) WindowView {
	return WindowView{Seconds: over.Seconds(), Successes: c.Successes, Failures: c.Failures, Refusals: c.Refusals}
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
