package gateway

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
	"github.com/rpcgate/rpcgate/telemetry"
)

// Forwarder sends a call out and pumps its messages; *rpcproxy.Backend is one.
type Forwarder interface {
	Forward(ctx context.Context, r *rpcproxy.Request, ex rpcproxy.Exchange) error
}

// dispatched is how a call went out, which callers, log and metrics are told.
type dispatched struct {
	served   rpcproxy.Served
	show     callInfo      // dispatch
	fallback fallbackKind  // fallback: what answered in the backend's place
	age      time.Duration // fallback: of a last good answer
	begun    bool          // SendHeader: the caller was given a header
}

// outbound makes of a route's call a request to one backend. It is made when a
// snapshot is built.
type outbound struct {
	route    *routes.Route
	backend  Forwarder
	timeout  time.Duration // 0: the backend's own
	canaries *canaries     // nil: none
	identity auth.Identity // what the backend is told of the caller
	judge    func(mem.BufferSlice) bool
	hashOf   func(mem.BufferSlice) string
}

func (g *Gateway) newOutbound(r *routes.Route, backend Forwarder, filters filters) *outbound {
	o := &outbound{route: r, backend: backend, timeout: r.Timeout, canaries: filters.canaries(r.Canary)}
	if outcome := r.Outcome; outcome != nil {
		o.judge = func(msg mem.BufferSlice) bool {
			data, lent := g.messages.joined(msg)
			defer g.messages.Put(lent)
			return outcome.Success(data)
		}
	}
	if field := r.HashField; field != nil {
		o.hashOf = func(msg mem.BufferSlice) string {
			data, lent := g.messages.joined(msg)
			defer g.messages.Put(lent)
			v, err := field.Read(data)
			if err != nil || !v.IsSet() {
				return "" // the app's
			}
			return field.Text(v)
		}
	}
	return o
}

// fill makes the call's request, which is for this backend.
func (o *outbound) fill(c *Call) *rpcproxy.Request {
	r := &c.request
	r.Method = o.route.FullMethod
	r.ClientStreams, r.ServerStreams = o.route.ClientStreams, o.route.ServerStreams
	r.Metadata = c.Metadata
	r.Deadline = c.Deadline
	r.Timeout = o.timeout
	r.Idempotent = o.route.Idempotent || o.route.IdempotencyKey && hasValue(c.Metadata[keyIdempotency])
	r.NoSideEffects = o.route.NoSideEffects
	r.MaxAttempts = o.route.MaxAttempts
	r.Filter = o.canaries.choose(c.Metadata)
	r.HashOf = o.hashOf
	r.Judge = o.judge
	r.JudgeCounts = o.judge != nil && o.route.Outcome.Breaker
	r.Served = &c.out.served
	r.Tenant = c.ticket.Tenant()
	if c.Principal != nil {
		r.Revocable = c.Principal
		r.Identity = c.Principal.Identity(o.identity)
		r.Credential = rpcproxy.Credential{App: c.Principal.App, TokenID: c.Principal.TokenID, Token: c.Credential.Token}
	}
	return r
}

// hasValue tells whether there is a key by which a backend knows a call again.
func hasValue(values []string) bool { return len(values) > 0 && values[0] != "" }

// handle hands the call to its backend.
func (o *outbound) handle(ctx context.Context, c *Call) error {
	return o.backend.Forward(ctx, o.fill(c), c)
}

// dispatch is the last stage of a route's pipeline: to one endpoint of the
// backend or to all of them, with what answers in its place.
func (g *Gateway) dispatch(r *routes.Route, n generation, kept *keptOver) (Handler, error) {
	backend, ok := n.backends[r.Backend]
	if !ok {
		return nil, fmt.Errorf("route %s: no backend %q", r, r.Backend)
	}
	out := g.newOutbound(r, backend, kept.filters)
	out.identity = n.identity(r.Backend)
	if r.FanOut != nil {
		return (&fanOut{outbound: out, endpoints: backend, cfg: *r.FanOut, log: g.log}).handle, nil
	}
	if r.Fallback == nil {
		return out.handle, nil
	}
	f := &fallback{main: out, rule: r.Fallback}
	if name := r.Fallback.Backend; name != "" {
		spare, ok := n.backends[name]
		if !ok {
			return nil, fmt.Errorf("route %s: no backend %q", r, name)
		}
		f.spare = g.newOutbound(r, spare, kept.filters)
		f.spare.timeout = 0
		f.spare.identity = n.identity(name)
		f.spare.canaries = nil // the route's own are of the main backend's endpoints
		if cfg := n.config(name); cfg != nil {
			f.spare.canaries = kept.filters.canaries(cfg.Canary)
		}
	}
	if cfg := r.Fallback.LastGood; cfg != nil {
		var err error
		if f.good, err = kept.lastGood(r, *cfg); err != nil {
			return nil, err
		}
	}
	return f.handle, nil
}

// keptOver is what a snapshot takes over from the one before: filters, which
// are told apart by their addresses, and answers.
type keptOver struct {
	filters filters
	good    map[lastGoodID]*lastGood
	before  *keptOver // nil once the snapshot is built
}

func newKeptOver(before *keptOver) *keptOver {
	k := &keptOver{filters: filters{}, good: map[lastGoodID]*lastGood{}, before: before}
	if before != nil {
		k.filters.before = before.filters.made
	}
	k.filters.made = map[string]*fleet.Filter{}
	return k
}

// keptOver is what the snapshot in force has to take over; nil: there is none.
func (g *Gateway) keptOver() *keptOver {
	if s := g.snapshot.Load(); s != nil {
		return s.kept
	}
	return nil
}

// settle lets go of what the snapshot before had and this one has no use for.
func (k *keptOver) settle() { k.before, k.filters.before = nil, nil }

// tellHow counts how the call went out, and lets the caller of one that failed
// before there was a header know.
func tellHow(show callInfo, outcomes *telemetry.OutcomeObserver) step {
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) error {
			c.out.show = show
			err := next(ctx, c)
			if c.out.served.Failed {
				outcomes.BusinessFailure()
			}
			if c.out.fallback != noFallback {
				outcomes.Fallback(c.out.fallback.String())
			}
			if err != nil && !c.out.begun {
				if md := c.mark(nil); len(md) > 0 {
					c.peer.note(md)
				}
			}
			return err
		}
	}
}
