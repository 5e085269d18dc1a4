package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

// checkTemplates checks what can be known of the config's routes when the rest
// of the file has faults too, so that all are told at once.
func (c *checked) checkTemplates(cfg *config.Config) {
	c.addNew(routeFaults(cfg, routes.CheckRoutes(cfg.Routes)))
}

// routesShow reports whether a file with these faults says enough of its
// backends to build the route table from it.
func routesShow(faults config.Faults) bool {
	return !slices.ContainsFunc(faults, func(f config.Fault) bool {
		section, key, _ := strings.Cut(f.Key, ".")
		// A fault without a key says that there are more.
		return f.Key == "" || strings.HasPrefix(section, "backends") && (key == "" || key == "name")
	})
}

// checkRoutes builds the route table as far as descriptors lie on disk.
func (c *checked) checkRoutes(ctx context.Context, cfg *config.Config) {
	inputs := make([]routes.Input, len(cfg.Backends))
	for i, b := range cfg.Backends {
		inputs[i].Backend = b
		section := fmt.Sprintf("backends[%d]", i)
		switch {
		case c.faulty(section+".proto") || c.faulty(section+".protoset") || c.faulty(section+".reflection"):
			continue // told already
		case b.Reflection:
			c.Unchecked = append(c.Unchecked, b.Name)
			continue
		}
		key := section + ".protoset"
		if b.Proto != nil {
			key = section + ".proto"
		}
		d, err := routes.Load(ctx, b, nil)
		if err != nil {
			for _, err := range split(err) {
				c.Faults = append(c.Faults, fault(cfg.FaultAt(key, err.Error())))
			}
			continue
		}
		inputs[i].Descriptors = d
		for _, w := range d.Warnings() {
			c.Warnings = append(c.Warnings, fault(cfg.FaultAt(key, w)))
		}
	}
	table, err := routes.Build(inputs, cfg.Routes)
	c.Routes = len(table.Routes())
	c.addNew(routeFaults(cfg, err))
	c.warnOfGuesses(cfg, inputs)
}

// warnOfGuesses names the config routes that close a method of a backend that
// is open to everybody, where nobody can say yet whether there is that method.
func (c *checked) warnOfGuesses(cfg *config.Config, inputs []routes.Input) {
	for i, r := range cfg.Routes {
		// One with an HTTP rule closes its own bindings only.
		if r.Auth != "required" || r.HTTP != nil {
			continue
		}
		known := r.Backend == "" && slices.ContainsFunc(inputs, func(in routes.Input) bool { return serves(in.Descriptors, r.Method) })
		guessed := slices.ContainsFunc(cfg.Backends, func(b config.Backend) bool {
			return b.Reflection && b.Auth == "none" && (r.Backend == "" || r.Backend == b.Name)
		})
		if guessed && !known {
			c.Warnings = append(c.Warnings, fault(cfg.FaultAt(fmt.Sprintf("routes[%d].method", i),
				"cannot be checked offline: if the method is misspelt, it stays open")))
		}
	}
}

// serves reports whether descriptors, which may be nil, have a method
// package.Service/Method.
func serves(d *routes.Descriptors, method string) bool {
	if d == nil {
		return false
	}
	service, name, _ := strings.Cut(method, "/")
	return slices.ContainsFunc(d.Services(), func(s protoreflect.ServiceDescriptor) bool {
		return string(s.FullName()) == service && s.Methods().ByName(protoreflect.Name(name)) != nil
	})
}

// faulty reports whether a fault of key, or of something in it, is known.
func (c *checked) faulty(key string) bool {
	return slices.ContainsFunc(c.Faults, func(f fault) bool { return within(f.Key, key) })
}

// addNew adds faults of keys that no fault is known of: what is wrong with one
// often makes another check fail too.
func (c *checked) addNew(found []config.Fault) {
	known := c.Faults
	for _, f := range found {
		if !slices.ContainsFunc(known, func(k fault) bool { return within(k.Key, f.Key) || within(f.Key, k.Key) }) {
			c.Faults = append(c.Faults, fault(f))
		}
	}
}

// within reports whether a key is a section's, or the section itself.
func within(key, section string) bool {
	rest, ok := strings.CutPrefix(key, section)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// routeFaults gives what is wrong with a route table, with the places in the
// file.
func routeFaults(cfg *config.Config, err error) []config.Fault {
	var faults []config.Fault
	for _, err := range split(err) {
		key, message := "routes", err.Error()
		var f *routes.Fault
		if errors.As(err, &f) && f.Key != "" {
			key, message = f.Key, strings.TrimPrefix(message, f.Key+": ")
			message = strings.Replace(message, " (config, "+key+")", "", 1) // the place says it
		}
		faults = append(faults, cfg.FaultAt(key, message))
	}
	return faults
}

// split takes apart what errors.Join put together, also where another error
// wraps that: then each part has the wrapper's text no more.
func split(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, split(err)...)
	}
	return all
}
