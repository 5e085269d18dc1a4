package config

import (
	"slices"
	"strings"
)

func (v *validator) routes(c *Config) {
	policies := map[[2]string]int{} // backend and method, to the route that sets only policies for them
	for i := range c.Routes {
		r, section := &c.Routes[i], indexPath("routes", i)
		if key := section + ".method"; r.Method == "" {
			v.missing(section, "needs method")
		} else if why := methodName(r.Method); why != "" {
			v.fault(key, "%s %s", v.show(key, r.Method), why)
		}
		v.routeBackend(c, r, section)
		v.headers(&r.Headers, section+".headers")
		v.routePolicies(c, r, section)
		if r.HTTP != nil {
			v.httpRule(r.HTTP, section+".http", 0)
			continue
		}
		if r.Backend == "" && !r.setsPolicy() {
			v.missing(section, "does nothing: it has neither http, nor backend, nor any policy such as auth, timeout or headers")
		}
		id := [2]string{r.Backend, r.Method}
		if first, ok := policies[id]; ok {
			v.fault(section, "sets policies for the method that routes[%d] sets some for already; put them together", first)
		} else {
			policies[id] = i
		}
	}
}

// routeBackend checks that a route's backend exists, and may serve the method.
func (v *validator) routeBackend(c *Config, r *Route, section string) {
	key := section + ".backend"
	if r.Backend == "" {
		if len(c.Backends) > 0 && methodName(r.Method) == "" &&
			!slices.ContainsFunc(c.Backends, func(b Backend) bool { return serves(&b, r.Method) }) {
			v.fault(section+".method", "its service is among no backend's services")
		}
		return
	}
	names := make([]string, len(c.Backends))
	for i, b := range c.Backends {
		names[i] = b.Name
	}
	i := slices.Index(names, r.Backend)
	if i < 0 {
		hint := ""
		if near := Nearest(r.Backend, names); near != "" && v.show(key, r.Backend) == quote(r.Backend) {
			name := keyPath(indexPath("backends", slices.Index(names, near)), "name")
			hint = "; did you mean " + v.show(name, near) + "?"
		}
		v.fault(key, "there is no backend %s%s", v.show(key, r.Backend), hint)
		return
	}
	b := &c.Backends[i]
	if methodName(r.Method) == "" && !serves(b, r.Method) {
		v.fault(section+".method", "its service is not among the services of backend %s", v.show(key, r.Backend))
	}
	if r.Timeout > 0 && r.Timeout <= b.DeadlineReserve {
		v.fault(section+".timeout", "must be longer than the backend's deadline_reserve, %v, which is kept back of it", b.DeadlineReserve)
	}
}

func (v *validator) httpRule(r *HTTPRule, section string, depth int) {
	templates := []struct{ key, template string }{
		{"get", r.Get}, {"put", r.Put}, {"post", r.Post}, {"delete", r.Delete}, {"patch", r.Patch},
	}
	verbs := make([]option, 0, len(templates)+1)
	for _, t := range templates {
		verbs = append(verbs, option{t.key, t.template != ""})
		if t.template != "" {
			v.template(t.template, keyPath(section, t.key))
		}
	}
	v.exactlyOne(section, "the HTTP method", append(verbs, option{"custom", r.Custom != nil}))
	if r.Custom != nil {
		if key := section + ".custom.kind"; r.Custom.Kind == "" {
			v.missing(section+".custom", "needs kind")
		} else if !isHTTPToken(r.Custom.Kind) {
			v.fault(key, "%s is not an HTTP method", v.show(key, r.Custom.Kind))
		}
		if r.Custom.Path == "" {
			v.missing(section+".custom", "needs path")
		} else {
			v.template(r.Custom.Path, section+".custom.path")
		}
	}
	if key := section + ".body"; r.Body != "" && r.Body != "*" && !isFullName(r.Body) {
		v.fault(key, `%s is neither "*" nor the name of a field`, v.show(key, r.Body))
	}
	if key := section + ".response_body"; r.ResponseBody != "" && !isFullName(r.ResponseBody) {
		v.fault(key, "%s is not the name of a field", v.show(key, r.ResponseBody))
	}
	for i := range r.AdditionalBindings {
		at := indexPath(section+".additional_bindings", i)
		if depth > 0 {
			v.fault(at, "additional bindings have none of their own")
			return
		}
		v.httpRule(&r.AdditionalBindings[i], at, depth+1)
	}
}

// template looks at a path template from outside; its grammar is the route table's to check.
func (v *validator) template(template, key string) {
	if !strings.HasPrefix(template, "/") {
		v.fault(key, "%s does not begin with a slash", v.show(key, template))
	} else if strings.ContainsFunc(template, isBlank) || strings.ContainsAny(template, "?#") {
		v.fault(key, "%s has a blank, a query or a fragment in it", v.show(key, template))
	}
}
