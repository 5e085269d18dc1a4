package routes

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes/template"
)

// resolveExplicit finds the method of each config route, and sets the policies
// of those without an HTTP rule.
func (b *builder) resolveExplicit() {
	for i, r := range b.explicit {
		key := fmt.Sprintf("routes[%d]", i)
		if m := b.explicitMethod(r.Backend, r.Method, key); m != nil {
			b.routes = append(b.routes, explicitRoute{Route: r, key: key, method: m})
		}
	}
	// The routes that name their backend come last, to be laid over the others.
	for _, named := range []bool{false, true} {
		for i := range b.routes {
			if r := &b.routes[i]; r.HTTP == nil && (r.Backend != "") == named {
				p := b.policyOf(r)
				b.checkOver(p, r)
				r.method.policy = p.over(r.method.policy)
			}
		}
	}
}

// explicitMethod finds the method that a config route is for. It gives nil if
// there is none; that is a fault unless a backend is pending that may have it.
// Of several, which is a fault too, it gives the one in force: with nil, a
// second backend could rid the first one's methods of what the config demands.
func (b *builder) explicitMethod(backendName, name, key string) *method {
	candidates := slices.Clone(b.methods[name])
	among, pending := b.backends, len(b.table.pending) > 0
	if backendName != "" {
		if !slices.ContainsFunc(b.in, func(in Input) bool { return in.Backend.Name == backendName }) {
			b.faultf(key+".backend", name, "there is no backend %s%s", backendName, hint(backendName, b.backendNames()))
			return nil
		}
		other := func(m *method) bool { return m.backend.Backend.Name != backendName }
		candidates = slices.DeleteFunc(candidates, other)
		among = slices.DeleteFunc(slices.Clone(among), func(be *backend) bool { return be.Backend.Name != backendName })
		pending = len(among) == 0
	}
	switch {
	case len(candidates) == 1:
		return candidates[0]
	case len(candidates) > 1:
		b.faultf(key, name, "is served by backends %s: say which with backend", backendsOf(candidates))
		return ownerIn(b.inForce, name, candidates)
	case !pending:
		b.fault(key+".method", "", unknownMethod(name, among))
	}
	return nil
}

func (b *builder) backendNames() []string {
	names := make([]string, len(b.in))
	for i, in := range b.in {
		names[i] = in.Backend.Name
	}
	return names
}

func backendsOf(methods []*method) string {
	names := make([]string, len(methods))
	for i, m := range methods {
		names[i] = m.backend.Backend.Name
	}
	return strings.Join(names, " and ")
}

// resolveOwners decides, for each method, which backend's it is. Where several
// serve it, a config route must name one.
func (b *builder) resolveOwners() {
	type clash struct{ service, backends string }
	var clashes []clash // in order
	undecided := make(map[clash][]string)
	for _, name := range b.names {
		candidates := b.methods[name]
		owner, decided := b.owner(name, candidates)
		owner.owned = true
		if decided {
			continue
		}
		service, short, _ := strings.Cut(name, "/")
		c := clash{service, backendsOf(candidates)}
		if undecided[c] == nil {
			clashes = append(clashes, c)
		}
		undecided[c] = append(undecided[c], short)
	}
	for _, c := range clashes {
		b.faultf("", c.service, "%s is served by backends %s: name the backend in a route of each method, "+
			"or leave the service out of the services of the others", strings.Join(undecided[c], ", "), c.backends)
	}
}

// owner picks the backend that config routes name. If they name more than one,
// a route without an HTTP rule decides. Without a decision, the one in force
// stays; if none is, the first counts.
func (b *builder) owner(name string, candidates []*method) (owner *method, decided bool) {
	if len(candidates) == 1 {
		return candidates[0], true
	}
	var named, decisive []*method
	for _, r := range b.routes {
		if r.Backend == "" || r.method.name != name {
			continue
		}
		if !slices.Contains(named, r.method) {
			named = append(named, r.method)
		}
		if r.HTTP == nil && !slices.Contains(decisive, r.method) {
			decisive = append(decisive, r.method)
		}
	}
	switch {
	case len(decisive) == 1:
		return decisive[0], true
	case len(named) == 1:
		return named[0], true
	}
	// A backend that stands in for others comes after them.
	if first := slices.DeleteFunc(slices.Clone(candidates), b.standsIn); len(first) == 1 {
		return first[0], true
	}
	if m := ownerIn(b.inForce, name, candidates); m != nil {
		return m, false
	}
	return candidates[0], false
}

// standsIn tells whether a method's backend is the fallback of some route.
func (b *builder) standsIn(m *method) bool {
	return slices.ContainsFunc(b.explicit, func(r config.Route) bool {
		return r.Fallback != nil && r.Fallback.Backend == m.backend.Backend.Name
	})
}

// addExplicit adds the routes of config.
func (b *builder) addExplicit() {
	for i, r := range b.explicit {
		if r.HTTP == nil {
			continue
		}
		key := fmt.Sprintf("routes[%d]", i)
		bindings, faults := configBindings(r.HTTP, key+".http")
		b.faults = append(b.faults, faults...)
		at := slices.IndexFunc(b.routes, func(e explicitRoute) bool { return e.key == key })
		if at < 0 {
			continue // no such method, or not yet
		}
		e := &b.routes[at]
		p := b.policyOf(e)
		b.checkOver(p, e)
		for _, bi := range bindings {
			b.addHTTP(e.method, bi, SourceConfig, p)
		}
	}
}

// addAnnotated adds the routes of google.api.http annotations.
func (b *builder) addAnnotated() {
	for _, be := range b.backends {
		if !be.Backend.Annotations {
			continue
		}
		for _, m := range be.methods {
			if m.owned {
				b.annotated(m)
			}
		}
	}
}

func (b *builder) annotated(m *method) {
	where := "backend " + m.backend.Backend.Name + ", " + origin(m)
	rule, err := httpRule(m.descriptor)
	if err != nil {
		b.faultf("", where, "google.api.http: %w", err)
	}
	if rule == nil {
		return
	}
	bindings, faults := annotatedBindings(rule)
	for _, err := range faults {
		b.fault("", where, err)
	}
	for _, bi := range bindings {
		b.addHTTP(m, bi, SourceAnnotation, policy{})
	}
}

// addDefaults adds POST /package.Service/Method.
func (b *builder) addDefaults() {
	for _, be := range b.backends {
		if !be.Backend.DefaultBinding {
			continue
		}
		for _, m := range be.methods {
			if !m.owned {
				continue
			}
			tmpl, err := template.Parse("/" + m.name)
			if err != nil {
				b.faultf("", "backend "+be.Backend.Name+", "+origin(m), "default binding: %w", err)
				continue
			}
			b.addHTTP(m, binding{method: http.MethodPost, template: tmpl, body: "*"}, SourceDefault, policy{})
		}
	}
}
