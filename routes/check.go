package routes

import (
	"errors"
	"fmt"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes/template"
)

// CheckRoutes checks what can be known of a config's routes without descriptors:
// the form of their HTTP rules, the grammar of their templates, and conflicts
// between them. It gives all faults, joined, each a *[Fault] with a key such as
// "routes[2].http.get".
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
