package gozero

import (
	"strings"
	"unicode"
)

type route struct {
	Method  string   `yaml:"method"`
	Backend string   `yaml:"backend"`
	HTTP    httpRule `yaml:"http"`
}

// httpRule has one of its methods.
type httpRule struct {
	Get    string      `yaml:"get,omitempty"`
	Put    string      `yaml:"put,omitempty"`
	Post   string      `yaml:"post,omitempty"`
	Delete string      `yaml:"delete,omitempty"`
	Patch  string      `yaml:"patch,omitempty"`
	Custom *customRule `yaml:"custom,omitempty"`
	Body   string      `yaml:"body,omitempty"`
}

type customRule struct {
	Kind string `yaml:"kind"`
	Path string `yaml:"path"`
}

// route converts a mapping.
func (c *conversion) route(s *section, backend string) (route, bool) {
	verb, path, method := strings.ToUpper(s.text("Method")), s.text("Path"), s.text("RpcPath")
	if verb == "" || path == "" || method == "" {
		c.fault(s.line, s.path, "needs Method, Path and RpcPath")
		return route{}, false
	}
	r := route{Method: fullName(method), Backend: backend}
	template := c.template(s, path)
	switch verb {
	case "GET":
		r.HTTP.Get = template
	case "PUT":
		r.HTTP.Put, r.HTTP.Body = template, "*"
	case "POST":
		r.HTTP.Post, r.HTTP.Body = template, "*"
	case "PATCH":
		r.HTTP.Patch, r.HTTP.Body = template, "*"
	case "DELETE":
		r.HTTP.Delete = template
		s.noteAt("Method", "a body of DELETE is not read here; fields can come in the query")
	default:
		r.HTTP.Custom = &customRule{verb, template}
	}
	if r.HTTP.Body == "*" {
		c.bodyAndQuery()
	}
	return r, true
}

// bodyAndQuery notes once what is different for routes with a body.
func (c *conversion) bodyAndQuery() {
	const text = "The query of a request with a body is not read here, with go-zero it goes before the body's fields."
	for _, n := range c.notes {
		if n.Text == text {
			return
		}
	}
	c.note(0, "", text)
}

// fullName writes a method as package.Service/Method: go-zero takes a dot for
// the slash, too.
func fullName(method string) string {
	method = strings.TrimPrefix(method, "/")
	if strings.Contains(method, "/") {
		return method
	}
	if dot := strings.LastIndexByte(method, '.'); dot > 0 {
		return method[:dot] + "/" + method[dot+1:]
	}
	return method
}

// template turns /users/:id into /users/{id}. A variable is named by the field
// as the .proto file has it, where go-zero takes its JSON name as well.
func (c *conversion) template(s *section, path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		name, ok := strings.CutPrefix(segment, ":")
		if !ok {
			continue
		}
		field := snake(name)
		segments[i] = "{" + field + "}"
		if field != name {
			s.noteAt("Path", "the variable %s is %s here: variables have the names of the .proto file", name, field)
		}
	}
	return strings.Join(segments, "/")
}

// snake turns userId into user_id.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
