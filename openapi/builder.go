package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/routes/template"
)

func fullName(s string) protoreflect.FullName { return protoreflect.FullName(s) }

type builder struct {
	table   *routes.Table
	options Options

	paths   []*pathItem // in the order of the table
	byShape map[string]*pathItem

	schemas    map[string]*schemas // by backend
	components map[componentID]*component
	order      []*component // in the order of their first use
	named      []*component // as nameComponents has them; nil: not yet
	responses  object
	tags       array
	tagged     map[string]bool
	ids        map[string]bool // operations'
	secured    bool            // some operation needs a credential
	streams    bool            // some operation streams

	room    int // bytes left
	omitted []string
}

// A pathItem is a path and its operations.
type pathItem struct {
	path       string
	names      []string          // of its parameters, by index of the path's parts
	operations map[string]object // by method
}

func newBuilder(t *routes.Table, o Options) *builder {
	return &builder{
		table: t, options: o, room: maxBytes,
		byShape:    make(map[string]*pathItem),
		schemas:    make(map[string]*schemas),
		components: make(map[componentID]*component),
		tagged:     make(map[string]bool),
		ids:        make(map[string]bool),
	}
}

// afford takes the room that a value needs, if there is as much.
func (b *builder) afford(value object) bool {
	n := len(appendJSON(nil, value))
	if n > b.room {
		return false
	}
	b.room -= n
	return true
}

func (b *builder) omit(r *routes.Route, reason string) {
	switch len(b.omitted) {
	case maxOmitted:
	case maxOmitted - 1:
		b.omitted = append(b.omitted, "and more")
	default:
		b.omitted = append(b.omitted, r.String()+": "+reason)
	}
}

// backend gives the schemas of a route's backend.
func (b *builder) backend(r *routes.Route) *schemas {
	s, ok := b.schemas[r.Backend]
	if !ok {
		s = &schemas{b: b, backend: r.Backend, json: r.JSON, comment: b.table.Descriptors(r.Backend).Comment}
		b.schemas[r.Backend] = s
	}
	return s
}

// methods are the HTTP methods that a path item may have, in OpenAPI's order.
var methods = [...]string{
	http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete,
	http.MethodOptions, http.MethodHead, http.MethodPatch, http.MethodTrace,
}

// add describes a route.
func (b *builder) add(r *routes.Route) {
	tmpl, err := template.Parse(r.Template)
	if err != nil { // never: the table was made of it
		b.omit(r, err.Error())
		return
	}
	p := newPath(tmpl)
	item, ok := b.byShape[p.shape]
	if !ok {
		item = &pathItem{path: p.String(), names: make([]string, len(p.parts)), operations: make(map[string]object)}
		for i, part := range p.parts {
			item.names[i] = part.name
		}
	}
	method := r.HTTPMethod
	if method == template.AnyMethod {
		method = http.MethodGet
		if r.Body != "" || r.ClientStreams {
			method = http.MethodPost
		}
	}
	if !slices.Contains(methods[:], method) {
		b.omit(r, "OpenAPI has no such HTTP method")
		return
	}
	if item.operations[method] != nil {
		b.omit(r, "another route looks the same in OpenAPI, "+method+" "+item.path)
		return
	}
	id := b.operationID(r)
	op := b.operation(r, p, item.names, id)
	if !b.afford(op) {
		b.omit(r, fmt.Sprintf("the document would be larger than %d MiB", maxBytes>>20))
		return
	}
	b.ids[id] = true
	item.operations[method] = op
	b.secured = b.secured || !r.AuthNone
	b.tag(r)
	if !ok {
		b.byShape[p.shape] = item
		b.paths = append(b.paths, item)
	}
}

// operationID is the method's full name, numbered from its second route on.
func (b *builder) operationID(r *routes.Route) string {
	name := string(r.Descriptor.FullName())
	id := name
	for n := 2; b.ids[id]; n++ {
		id = name + "_" + strconv.Itoa(n)
	}
	return id
}

// tag adds the tag of a route's service.
func (b *builder) tag(r *routes.Route) {
	service := r.Descriptor.Parent()
	name := string(service.FullName())
	if b.tagged[name] {
		return
	}
	b.tagged[name] = true
	o := object{{"name", name}}
	o.setText("description", b.backend(r).comment(service.FullName()))
	b.tags = append(b.tags, o)
}

// document puts everything together.
func (b *builder) document(version string) object {
	root := object{{"openapi", "3.1.0"}, {"info", object{
		{"title", b.options.Title},
		{"description", b.description()},
		{"version", version},
	}}}
	if len(b.options.Servers) > 0 {
		root.set("servers", servers(b.options.Servers))
	}
	if b.secured {
		root.set("security", security(b.options.Token))
	}
	root.setArray("tags", b.tags)
	paths := make(object, 0, len(b.paths))
	for _, item := range b.paths {
		var o object
		for _, m := range methods {
			if op := item.operations[m]; op != nil {
				o.set(strings.ToLower(m), op)
			}
		}
		paths.set(item.path, o)
	}
	root.set("paths", paths)
	if b.named == nil {
		b.named = nameComponents(b.order)
	}
	var components object
	if len(b.named) > 0 {
		var all object
		for _, c := range b.named {
			all.set(c.key, c.schema)
		}
		components.set("schemas", all)
	}
	if len(b.responses) > 0 {
		components.set("responses", b.responses)
	}
	if b.secured {
		components.set("securitySchemes", securitySchemes(b.options.Token))
	}
	if len(components) > 0 {
		root.set("components", components)
	}
	root.setArray("x-rpcgate-omitted", texts(b.omitted...))
	return root
}

// description says what holds for all operations.
func (b *builder) description() string {
	if b.streams {
		return paragraphs(jsonText, streamsText)
	}
	return jsonText
}

func servers(all []Server) array {
	var a array
	for _, s := range all {
		o := object{{"url", s.URL}}
		o.setText("description", s.Description)
		var variables object
		for _, v := range s.Variables {
			of := object{{"default", v.Default}}
			of.setText("description", v.Description)
			variables.set(v.Name, of)
		}
		if len(variables) > 0 {
			o.set("variables", variables)
		}
		a = append(a, o)
	}
	return a
}
