package routes

import "github.com/rpcgate/rpcgate/routes/template"

// ownerIn gives the one among candidates, which all have the same name, that
// the table in force leads to; nil if there is none.
func ownerIn(inForce *Table, name string, candidates []*method) *method {
	if inForce == nil {
		return nil
	}
	r, ok := inForce.grpc["/"+name]
	if !ok {
		return nil
	}
	for _, m := range candidates {
		if m.backend.Backend.Name == r.Backend {
			return m
		}
	}
	return nil
}

// holds tells whether the HTTP method, and the paths that tmpl matches, lead to
// the backend in the table; in none they lead nowhere.
func (t *Table) holds(backend, httpMethod string, tmpl *template.Template) bool {
	if t == nil {
		return false
	}
	id, ok := t.tree.Find(httpMethod, tmpl)
	return ok && t.http[id].Backend == backend
}
