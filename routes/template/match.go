package template

import (
	"maps"
	"net/http"
	"slices"
)

// Match finds the id for a method and a path, and appends the values of the
// template's variables, in their order, to vars. If there is none, ok is false
// and p is as it was. The values are parts of p's text and stay valid.
func (t *Tree) Match(method string, p *Path, vars []string) (id int, values []string, ok bool) {
	var few [8]string
	w := walk{path: p, method: method, verbs: t.appendVerbs(few[:0], p)}
	if !w.node(&t.root, 0, "") {
		return 0, vars, false
	}
	p.trimVerb(w.found.template.Verb)
	return w.found.id, p.appendVars(vars, w.found.template), true
}

// Allow gives the methods, sorted, that some template that matches the path is
// bound to: HEAD wherever there is GET, and always OPTIONS. It gives nil if no
// template matches the path.
func (t *Tree) Allow(p *Path) []string {
	var few [8]string
	w := walk{path: p, verbs: t.appendVerbs(few[:0], p), all: true}
	w.node(&t.root, 0, "")
	if len(w.methods) == 0 {
		return nil
	}
	w.methods[http.MethodOptions] = struct{}{}
	if _, ok := w.methods[http.MethodGet]; ok {
		w.methods[http.MethodHead] = struct{}{}
	}
	return slices.Sorted(maps.Keys(w.methods))
}

// appendVerbs appends the verbs that p may end with, longest first, and last
// the empty one. A verb needs something before its colon, even if the segment
// before may otherwise be empty.
func (t *Tree) appendVerbs(verbs []string, p *Path) []string {
	if t.maxVerb > 0 {
		last := p.segment(p.count() - 1)
		for i := max(1, len(last)-t.maxVerb-1); i < len(last); i++ {
			if last[i] != ':' {
				continue
			}
			if _, ok := t.verbs[last[i+1:]]; ok {
				verbs = append(verbs, last[i+1:])
			}
		}
	}
	return append(verbs, "")
}

// A walk is one search for a method, or, with all set, for the methods of all
// templates that match. (Were methods a slice, appending to it would make the
// compiler put verbs' array on the heap.)
type walk struct {
	path    *Path
	method  string
	verbs   []string
	found   *end
	all     bool
	methods map[string]struct{}
}

// node searches below n, which pos segments of the path have led to. The verb
// is chosen as the last segment is taken: it is what that segment ends with.
func (w *walk) node(n *node, pos int, verb string) bool {
	rest := w.path.count() - pos
	switch rest {
	case 0:
		if w.leaf(n, verb) {
			return true
		}
	case 1:
		last := w.path.segment(pos)
		for _, v := range w.verbs {
			if c, ok := n.literals.find(withoutVerb(last, v)); ok && w.node(c, pos+1, v) {
				return true
			}
		}
		if n.wildcard != nil {
			for _, v := range w.verbs {
				if w.node(n.wildcard, pos+1, v) {
					return true
				}
			}
		}
	default:
		if c, ok := n.literals.find(w.path.segment(pos)); ok && w.node(c, pos+1, "") {
			return true
		}
		if n.wildcard != nil && w.node(n.wildcard, pos+1, "") {
			return true
		}
	}
	for i := range n.deep {
		if w.tail(&n.deep[i], rest, verb) {
			return true
		}
	}
	return false
}

// tail searches behind a `**` that rest segments of the path remain for.
func (w *walk) tail(t *tail, rest int, verb string) bool {
	switch {
	case t.length > rest:
		return false
	case t.length > 0:
		return w.node(t.node, w.path.count()-t.length, "")
	case rest == 0:
		return w.leaf(t.node, verb)
	}
	for _, v := range w.verbs {
		if w.leaf(t.node, v) {
			return true
		}
	}
	return false
}

// leaf looks at the templates that end at n with the verb.
func (w *walk) leaf(n *node, verb string) bool {
	l, ok := n.leaves.find(verb)
	if !ok {
		return false
	}
	if w.all {
		if w.methods == nil {
			w.methods = make(map[string]struct{})
		}
		l.methods.each(func(method string, _ *end) { w.methods[method] = struct{}{} })
		return false
	}
	w.found = l.find(w.method)
	return w.found != nil
}

func withoutVerb(segment, verb string) string {
	if verb == "" {
		return segment
	}
	return segment[:len(segment)-len(verb)-1]
}
