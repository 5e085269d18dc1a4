package routes

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes/template"
	"github.com/rpcgate/rpcgate/transcode"
)

// Input is one backend, in the order of the config.
type Input struct {
	Backend     config.Backend
	Descriptors *Descriptors // nil: not there yet
}

// Build makes the table of all backends' routes and of the explicit ones.
//
// A route for HTTP comes from a method's annotations, from a config route with
// an HTTP rule, and from the default binding, in any mixture; a gRPC route there
// is for every method. The services of package grpc (health, reflection,
// channelz) are left out unless a backend names them. A config route without an
// HTTP rule sets the policy of all routes of its method; the policy of one with
// a rule is that of its own bindings only, so that what it opens over HTTP
// stays as it was for others.
//
// Backends whose descriptors are not there yet are pending: the table has no
// routes for them, and config routes that only they can have are no faults.
//
// The error joins all faults, each a *[Fault]. The table is there even so: it
// lacks only what the faults are about (of two routes in conflict, the second),
// so that the caller may choose to serve it when a refresh of one backend's
// descriptors brings a fault.
func Build(in []Input, explicit []config.Route) (*Table, error) {
	return Rebuild(nil, in, explicit)
}

// Rebuild is [Build] for when a table is in force already; nil is none. Of two
// backends in conflict that the config doesn't decide between, the one that has
// the method, or the HTTP method and path, in force keeps it: a backend that
// comes later must not get another's calls, and the credentials with them, by
// describing the same. The conflict is a fault as ever.
func Rebuild(inForce *Table, in []Input, explicit []config.Route) (*Table, error) {
	b := &builder{
		inForce:  inForce,
		in:       in,
		explicit: explicit,
		methods:  make(map[string][]*method),
		table: &Table{
			grpc:        make(map[string]*Route),
			descriptors: make(map[string]*Descriptors),
			registry:    &Registry{services: make(map[string]protoreflect.ServiceDescriptor)},
		},
	}
	b.collect()
	b.resolveExplicit()
	b.resolveOwners()
	// In this order, because the first of a method's routes with the same HTTP
	// method and path counts.
	b.addExplicit()
	b.addAnnotated()
	b.addDefaults()
	b.insertHTTP()
	b.addGRPC()
	return b.finish(), joinFaults(b.faults)
}

// A method is a method as one backend serves it.
type method struct {
	backend    *backend
	name       string // package.Service/Method
	descriptor protoreflect.MethodDescriptor
	policy     policy   // of config routes without an HTTP rule
	owned      bool     // gRPC callers, annotations and defaults lead here; no other backend's method of this name is
	http       []*Route // in the order of their sources
}

// A backend is an input whose descriptors are there.
type backend struct {
	Input
	key      string // the config key
	compiler *transcode.Compiler
	complete completeness
	methods  []*method
}

// An explicit route is a config route whose method was found.
type explicitRoute struct {
	config.Route
	key    string // the config key
	method *method
}

// An httpRoute is a route that is to go into the table's tree.
type httpRoute struct {
	*Route
	method  *method
	binding binding
	entered bool // nothing stood in its way
}

type builder struct {
	inForce  *Table // may be nil
	in       []Input
	explicit []config.Route

	backends []*backend
	methods  map[string][]*method // by name; one per backend that serves it
	names    []string             // keys of methods, in order
	routes   []explicitRoute
	http     []*httpRoute // in the order of their sources
	table    *Table
	faults   []*Fault
}

func (b *builder) fault(key, where string, err error) {
	b.faults = append(b.faults, &Fault{Key: key, Where: where, Err: err})
}

func (b *builder) faultf(key, where, format string, args ...any) {
	b.fault(key, where, fmt.Errorf(format, args...))
}

// collect lists the methods of all backends.
func (b *builder) collect() {
	for i, in := range b.in {
		if in.Descriptors == nil {
			b.table.pending = append(b.table.pending, in.Backend.Name)
			continue
		}
		be := &backend{
			Input:    in,
			key:      fmt.Sprintf("backends[%d]", i),
			compiler: transcode.NewCompiler(in.Backend.JSON, in.Descriptors.Types()),
			complete: make(completeness),
		}
		b.backends = append(b.backends, be)
		b.table.descriptors[in.Backend.Name] = in.Descriptors
		b.table.registry.backends = append(b.table.registry.backends, in.Descriptors)
		for _, w := range in.Descriptors.Warnings() {
			b.table.warn("backend %s: %s", in.Backend.Name, w)
		}
		for _, s := range b.services(be) {
			for j := range s.Methods().Len() {
				b.addMethod(be, s.Methods().Get(j))
			}
		}
		b.checkMethodTimeouts(be)
		b.checkHashField(be)
	}
	b.table.notFound = &NotFoundError{Pending: b.table.pending}
}

func (b *builder) addMethod(be *backend, d protoreflect.MethodDescriptor) {
	m := &method{backend: be, name: string(d.Parent().FullName()) + "/" + string(d.Name()), descriptor: d}
	be.methods = append(be.methods, m)
	if b.methods[m.name] == nil {
		b.names = append(b.names, m.name)
	}
	b.methods[m.name] = append(b.methods[m.name], m)
}

// services gives the services of a backend that are reachable.
func (b *builder) services(be *backend) []protoreflect.ServiceDescriptor {
	all := be.Descriptors.Services()
	wanted := be.Backend.Services
	for i, name := range wanted {
		if !slices.ContainsFunc(all, func(s protoreflect.ServiceDescriptor) bool { return string(s.FullName()) == name }) {
			b.faultf(fmt.Sprintf("%s.services[%d]", be.key, i), "",
				"backend %s does not serve %s%s", be.Backend.Name, name, hint(name, serviceNames(all)))
		}
	}
	var chosen []protoreflect.ServiceDescriptor
	for _, s := range all {
		name := string(s.FullName())
		if slices.Contains(wanted, name) || len(wanted) == 0 && !strings.HasPrefix(name, "grpc.") {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

func serviceNames(services []protoreflect.ServiceDescriptor) []string {
	names := make([]string, len(services))
	for i, s := range services {
		names[i] = string(s.FullName())
	}
	return names
}

func (b *builder) checkMethodTimeouts(be *backend) {
	for _, name := range slices.Sorted(maps.Keys(be.Backend.MethodTimeouts)) {
		if !slices.ContainsFunc(be.methods, func(m *method) bool { return m.name == name }) {
			b.fault(be.key+".method_timeouts", "", unknownMethod(name, []*backend{be}))
		}
	}
}

// unknownMethod says that none of the backends has the method, and which one
// may have been meant.
func unknownMethod(name string, backends []*backend) error {
	service, _, _ := strings.Cut(name, "/")
	var names, services []string
	for _, be := range backends {
		for _, m := range be.methods {
			if s, _, _ := strings.Cut(m.name, "/"); s == service {
				names = append(names, m.name)
			} else if !slices.Contains(services, s) {
				services = append(services, s)
			}
		}
	}
	who := "no backend serves"
	if len(backends) == 1 {
		who = "backend " + backends[0].Backend.Name + " does not serve"
	}
	if len(names) > 0 {
		return fmt.Errorf("%s %s%s", who, name, hint(name, names))
	}
	return fmt.Errorf("%s %s%s", who, service, hint(service, services))
}

// finish puts all routes in order.
func (b *builder) finish() *Table {
	t := b.table
	for _, be := range b.backends {
		for _, m := range be.methods {
			t.routes = append(t.routes, m.http...)
			if m.owned {
				t.routes = append(t.routes, t.grpc["/"+m.name])
			}
		}
	}
	for i, r := range t.routes {
		r.Index = i
	}
	return t
}

// addGRPC adds the route of every method for gRPC callers.
func (b *builder) addGRPC() {
	for _, be := range b.backends {
		for _, m := range be.methods {
			if !m.owned {
				continue
			}
			r := newRoute(m, m.policy)
			r.Label, r.Source, r.Origin = r.FullMethod, SourceGRPC, origin(m)
			var err error
			if r.Transcoder, err = compile(m, transcode.Binding{Body: "*", HTTPBodyAsJSON: true}); err != nil {
				b.table.warn("backend %s, %s: callers by gRPC or Connect can use it with protobuf, but not with JSON: %v",
					r.Backend, r.Origin, err)
			}
			b.table.grpc[r.FullMethod] = r
			service := m.descriptor.Parent().(protoreflect.ServiceDescriptor) //nolint:forcetypeassert // methods stand in services
			b.table.registry.services[string(service.FullName())] = service
		}
	}
}

// addHTTP adds a binding of a method as a route for insertHTTP.
func (b *builder) addHTTP(m *method, bi binding, source string, p policy) {
	r := newRoute(m, p.over(m.policy))
	r.HTTPMethod, r.Template, r.Label = bi.method, bi.template.String(), bi.template.String()
	r.Body, r.ResponseBody = bi.body, bi.responseBody
	r.Source, r.Origin = source, bi.key
	if bi.key == "" {
		r.Origin = origin(m)
	}
	var err error
	if r.Transcoder, err = compile(m, transcode.Binding{
		Body: bi.body, ResponseBody: bi.responseBody, Vars: bi.template.FieldPaths(),
		UpdateMask: bi.method == http.MethodPatch,
	}); err != nil {
		b.faultf(bi.key, "", "%s: %w", r.describe(), err)
		return
	}
	b.http = append(b.http, &httpRoute{Route: r, method: m, binding: bi})
}

// insertHTTP lets in the routes that addHTTP took: what the config says first,
// then what keeps a path with the backend that has it, then the rest.
func (b *builder) insertHTTP() {
	var kept, others []*httpRoute
	for _, r := range b.http {
		switch {
		case r.Source == SourceConfig:
			b.insert(r)
		case b.inForce.holds(r.Backend, r.binding.method, r.binding.template):
			kept = append(kept, r)
		default:
			others = append(others, r)
		}
	}
	for _, r := range slices.Concat(kept, others) {
		b.insert(r)
	}
	for _, r := range b.http {
		if r.entered {
			r.method.http = append(r.method.http, r.Route)
		}
	}
}

// insert puts a route into the tree, unless there is one of its method already
// from a source that counts more.
func (b *builder) insert(r *httpRoute) {
	bi := r.binding
	id, ok := b.table.tree.Insert(bi.method, bi.template, len(b.table.http))
	if ok {
		b.table.http = append(b.table.http, r.Route)
		r.entered = true
		return
	}
	other := b.table.http[id]
	if other.Backend == r.Backend && other.FullMethod == r.FullMethod && other.Source != r.Source {
		return
	}
	b.faultf(bi.key, "", "%s conflicts with %s: both match %s %s",
		r.describe(), other.describe(), exampleMethod(bi.method), bi.template.Example())
}

func compile(m *method, b transcode.Binding) (*transcode.Method, error) {
	for _, msg := range []protoreflect.MessageDescriptor{m.descriptor.Input(), m.descriptor.Output()} {
		if missing := m.backend.complete.missing(msg); missing != "" {
			return nil, fmt.Errorf("%s needs the type %s, which is not among the descriptors", msg.FullName(), missing)
		}
	}
	return m.backend.compiler.Compile(m.descriptor, b)
}

// exampleMethod gives a method that a binding takes.
func exampleMethod(method string) string {
	if method == template.AnyMethod {
		return "any method,"
	}
	return method
}

func newRoute(m *method, p policy) *Route {
	be := &m.backend.Backend
	r := &Route{
		Backend:       be.Name,
		FullMethod:    "/" + m.name,
		ClientStreams: m.descriptor.IsStreamingClient(),
		ServerStreams: m.descriptor.IsStreamingServer(),
		AuthNone:      be.Auth == "none",
		Timeout:       be.Timeout,
		LogBodies:     p.logBodies,
		Forms:         p.forms || be.Forms,
		Errors:        be.Errors,
		NoSideEffects: hasNoSideEffects(m.descriptor),
		Canary:        be.Canary,
		HashField:     hashField(m),
		JSON:          be.JSON,
		Types:         m.backend.Descriptors.Types(),
		Descriptor:    m.descriptor,
	}
	for _, h := range slices.Concat([]config.Headers{be.Headers}, p.headers) {
		if !h.Request.IsZero() {
			r.RequestHeaders = append(r.RequestHeaders, h.Request)
		}
		if !h.Response.IsZero() {
			r.ResponseHeaders = append(r.ResponseHeaders, h.Response)
		}
	}
	if be.Balancer.Policy == "ring_hash" {
		r.HashHeader = be.Balancer.HashHeader
	}
	if p.auth != "" {
		r.AuthNone = p.auth == "none"
	}
	if r.ClientStreams || r.ServerStreams {
		r.Timeout = be.StreamTimeout
	}
	if limit, ok := be.MethodTimeouts[m.name]; ok {
		r.Timeout = limit
	}
	if p.timeout != 0 {
		r.Timeout = p.timeout
	}
	p.apply(r)
	return r
}

// origin says where a method is described.
func origin(m *method) string {
	return m.descriptor.ParentFile().Path() + ": " + m.name
}
