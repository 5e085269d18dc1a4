package gateway

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// generation is what a snapshot takes from the configuration that it is of. A
// reload makes another.
type generation struct {
	cfg      *config.Config
	backends map[string]*rpcproxy.Backend // by name, one for each in cfg
}

// complete tells what is missing.
func (n generation) complete() error {
	for _, b := range n.cfg.Backends {
		if n.backends[b.Name] == nil {
			return fmt.Errorf("backend %q is configured but was not given", b.Name)
		}
	}
	return nil
}

// config is that of one backend; nil: there is none of that name.
func (n generation) config(backend string) *config.Backend {
	for i := range n.cfg.Backends {
		if b := &n.cfg.Backends[i]; b.Name == backend {
			return b
		}
	}
	return nil
}

// identity is what a backend is told of who calls.
func (n generation) identity(backend string) auth.Identity {
	if cfg := n.config(backend); cfg != nil {
		return auth.IdentityOf(cfg.Identity)
	}
	return 0
}

// snapshot is everything that a new route table or a reload changes, immutable.
// A call loads it once, so that it never sees a mix of two.
type snapshot struct {
	generation
	table    *routes.Table
	handlers []Handler           // by routes.Route.Index
	rules    []*headerRules      // by routes.Route.Index
	services map[string][]string // full names, by the backend that they are routed to
	docs     [docsPorts]docsFiles
	kept     *keptOver
}

// build makes a snapshot of what is known of the backends now. Routes that do
// not fit together are an error; the snapshot beside it is whole but for those,
// and in what they are about it leaves the table before, which may be nil, as it
// is.
func (g *Gateway) build(n generation, before *routes.Table, inputs []routes.Input) (*snapshot, error) {
	table, faults := routes.Rebuild(before, inputs, n.cfg.Routes)
	g.warnings.tell(g.log, table.Warnings())
	s := &snapshot{
		generation: n, table: table, handlers: make([]Handler, len(table.Routes())), rules: make([]*headerRules, len(table.Routes())),
		services: map[string][]string{},
		kept:     newKeptOver(g.keptOver()),
	}
	for _, r := range table.Routes() {
		dispatch, err := g.dispatch(r, n, s.kept)
		if err != nil {
			return nil, err
		}
		if !r.AuthNone && g.verifier == nil {
			return nil, fmt.Errorf("route %s needs a credential, but there is no redis to verify it", r)
		}
		s.handlers[r.Index] = g.pipeline(r, dispatch)
		s.rules[r.Index] = rulesOf(r, n.spareOf(r))
		service := string(r.Descriptor.Parent().FullName())
		if !slices.Contains(s.services[r.Backend], service) {
			s.services[r.Backend] = append(s.services[r.Backend], service)
		}
	}
	s.kept.settle()
	if faults != nil {
		return s, fmt.Errorf("building the route table: %w", faults)
	}
	return s, nil
}

// enforce puts a snapshot in force.
func (g *Gateway) enforce(s *snapshot) {
	g.snapshot.Store(s)
	for name, backend := range s.backends {
		backend.ExpectCanaries(s.canariesOf(name))
	}
}

// canariesOf is what endpoints of a backend are to match by some route that may
// call it.
func (s *snapshot) canariesOf(backend string) []config.Match {
	var all []config.Match
	add := func(rules []config.Canary) {
		for _, rule := range rules {
			if !slices.ContainsFunc(all, func(m config.Match) bool { return maps.Equal(m, rule.Match) }) {
				all = append(all, rule.Match)
			}
		}
	}
	for _, r := range s.table.Routes() {
		if r.Backend == backend {
			add(r.Canary)
		}
		if spare := s.spareOf(r); spare != nil && spare.Name == backend {
			add(spare.Canary)
		}
	}
	return all
}

// spareOf is the backend that a route's fallback asks; nil: none.
func (n generation) spareOf(r *routes.Route) *config.Backend {
	if r.Fallback == nil || r.Fallback.Backend == "" {
		return nil
	}
	return n.config(r.Fallback.Backend)
}

// bind makes a call one of a route's.
func (s *snapshot) bind(c *Call, r *routes.Route) { c.Route, c.rules = r, s.rules[r.Index] }

// warnings tells what is left out of the routes once, and not at every refresh
// that it goes on. It is used by one goroutine at a time.
type warnings struct{ told map[string]bool }

func (w *warnings) tell(log *slog.Logger, all []string) {
	now := make(map[string]bool, len(all))
	for _, warning := range all {
		if now[warning] = true; !w.told[warning] {
			log.Warn("left out of the routes", slog.String("warning", warning))
		}
	}
	w.told = now
}
