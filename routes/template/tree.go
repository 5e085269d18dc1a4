package template

import (
	"cmp"
	"net/http"
	"slices"
)

// A Tree maps HTTP methods and templates to ids. It is filled first and only
// read after that; then it may be matched from many goroutines at once.
//
// Among the templates that match a path, the one that is more specific at the
// first segment where they differ is taken: a literal before `*`, `*` before
// `**`; in the last segment, the same text with a longer verb before a shorter
// or none; among `**`, the one with more segments after it. A branch that leads
// nowhere, or only to other HTTP methods, is left again for the next.
//
// No node is visited twice for one path and verb, and at each segment at most
// two branches and the `**` are open, so what a match costs depends on the
// length and the ambiguity of the templates, not on their number.
type Tree struct {
	root    node
	verbs   map[string]struct{} // all verbs
	maxVerb int                 // the length of the longest
}

type node struct {
	literals mapping[*node]
	wildcard *node
	deep     []tail // by length, longest first
	leaves   mapping[*leaf]
}

// A tail is what follows a `**`: templates with length segments after it. How
// many segments a `**` takes of a path thus follows from the path's length.
type tail struct {
	length int
	node   *node
}

// A leaf holds the templates that end at a node with the same verb, which
// therefore match the same paths.
type leaf struct {
	methods mapping[*end]
}

type end struct {
	template *Template
	id       int
}

// AnyMethod stands for all HTTP methods that a template isn't bound to by name.
const AnyMethod = "*"

// Insert binds a method, or [AnyMethod], and a template to id. If the method is
// bound already to a template that matches the very same paths, it changes
// nothing and gives that binding's id and false.
func (t *Tree) Insert(method string, tmpl *Template, id int) (int, bool) {
	n := &t.root
	for i, s := range tmpl.Segments {
		n = n.child(s, len(tmpl.Segments)-i-1)
	}
	l, ok := n.leaves.find(tmpl.Verb)
	if !ok {
		l = new(leaf)
		n.leaves.add(tmpl.Verb, l)
	}
	if e, ok := l.methods.find(method); ok {
		return e.id, false
	}
	l.methods.add(method, &end{tmpl, id})
	if tmpl.Verb != "" {
		if t.verbs == nil {
			t.verbs = make(map[string]struct{})
		}
		t.verbs[tmpl.Verb] = struct{}{}
		t.maxVerb = max(t.maxVerb, len(tmpl.Verb))
	}
	return id, true
}

// Find gives the id that Insert would find bound already to the method and the
// very paths that tmpl matches.
func (t *Tree) Find(method string, tmpl *Template) (id int, ok bool) {
	n := &t.root
	for i, s := range tmpl.Segments {
		if n = n.existing(s, len(tmpl.Segments)-i-1); n == nil {
			return 0, false
		}
	}
	l, ok := n.leaves.find(tmpl.Verb)
	if !ok {
		return 0, false
	}
	e, ok := l.methods.find(method)
	if !ok {
		return 0, false
	}
	return e.id, true
}

// existing gives the node that child would, or nil instead of a new one.
func (n *node) existing(s Segment, rest int) *node {
	switch s.Kind {
	case Literal:
		c, _ := n.literals.find(s.Text)
		return c
	case Wildcard:
		return n.wildcard
	default:
		for _, t := range n.deep {
			if t.length == rest {
				return t.node
			}
		}
		return nil
	}
}

// child gives the node for s, which is followed by rest segments, and makes it
// if it isn't there.
func (n *node) child(s Segment, rest int) *node {
	switch s.Kind {
	case Literal:
		c, ok := n.literals.find(s.Text)
		if !ok {
			c = new(node)
			n.literals.add(s.Text, c)
		}
		return c
	case Wildcard:
		if n.wildcard == nil {
			n.wildcard = new(node)
		}
		return n.wildcard
	default:
		i, ok := slices.BinarySearchFunc(n.deep, rest, func(t tail, rest int) int { return cmp.Compare(rest, t.length) })
		if !ok {
			n.deep = slices.Insert(n.deep, i, tail{rest, new(node)})
		}
		return n.deep[i].node
	}
}

// find gives what method is bound to. GET's binding serves HEAD too.
func (l *leaf) find(method string) *end {
	if e, ok := l.methods.find(method); ok {
		return e
	}
	if method == http.MethodHead {
		if e, ok := l.methods.find(http.MethodGet); ok {
			return e
		}
	}
	e, _ := l.methods.find(AnyMethod)
	return e
}
