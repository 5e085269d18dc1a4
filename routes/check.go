package routes

import (
	"errors"
	"fmt"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes/template"
)

// CheckRoute checks what can be known of a config route without descriptors:
// the form of its HTTP rule, and the grammar of its templates. It gives all
// faults, joined, each a *[Fault]; their keys are relative to the route, as in
// "http.get".
func CheckRoute(r config.Route) error {
	if r.HTTP == nil {
		return nil
	}
	_, faults := configBindings(r.HTTP, "http")
	return joinFaults(faults)
}

// CheckRoutes does the same for all routes of a config, with keys such as
// "routes[2].http.get", and finds conflicts between them.
func CheckRoutes(routes []config.Route) error {
	var faults []*Fault
	var tree template.Tree
	var all []binding
	for i, r := range routes {
		if r.HTTP == nil {
			continue
		}
		bindings, f := configBindings(r.HTTP, fmt.Sprintf("routes[%d].http", i))
		faults = append(faults, f...)
		for _, b := range bindings {
			id, ok := tree.Insert(b.method, b.template, len(all))
			if !ok {
				faults = append(faults, &Fault{Key: b.key, Err: fmt.Errorf(
					"%s %s conflicts with %s, %s %s: both match %s %s",
					b.method, b.template, all[id].key, all[id].method, all[id].template, b.method, b.template.Example())})
			}
			all = append(all, b)
		}
	}
	return joinFaults(faults)
}

func joinFaults(faults []*Fault) error {
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}
