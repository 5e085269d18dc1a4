package gateway

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/rpcgate/rpcgate/routes"
)

// snapshot is everything that a new route table changes, immutable. A call
// loads it once, so that it never sees a mix of two.
type snapshot struct {
	table    *routes.Table
	handlers []Handler           // by routes.Route.Index
	rules    []*headerRules      // by routes.Route.Index
	services map[string][]string // full names, by the backend that they are routed to
	docs     [docsPorts]docsFiles
}

// build makes a snapshot of what is known of the backends now. Routes that do
// not fit together are an error; the snapshot beside it is whole but for those,
// and in what they are about it leaves the table in force as it is.
func (g *Gateway) build(inputs []routes.Input) (*snapshot, error) {
	table, faults := routes.Rebuild(g.Routes(), inputs, g.cfg.Routes)
	g.warnings.tell(g.log, table.Warnings())
	s := &snapshot{
		table: table, handlers: make([]Handler, len(table.Routes())), rules: make([]*headerRules, len(table.Routes())),
		services: map[string][]string{},
	}
	for _, r := range table.Routes() {
		backend, ok := g.backends[r.Backend]
		if !ok {
			return nil, fmt.Errorf("route %s: no backend %q", r, r.Backend)
		}
		if !r.AuthNone && g.verifier == nil {
			return nil, fmt.Errorf("route %s needs a credential, but there is no redis to verify it", r)
		}
		s.handlers[r.Index] = g.pipeline(r, backend)
		s.rules[r.Index] = rulesOf(r)
		service := string(r.Descriptor.Parent().FullName())
		if !slices.Contains(s.services[r.Backend], service) {
			s.services[r.Backend] = append(s.services[r.Backend], service)
		}
	}
	if faults != nil {
		return s, fmt.Errorf("building the route table: %w", faults)
	}
	return s, nil
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
