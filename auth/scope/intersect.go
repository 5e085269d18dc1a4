package scope

import (
	"cmp"
	"slices"
	"strings"
)

// Intersect lists what both of two lists allow, for people and backends to
// read; an empty list stands for everything. What cannot be said in a scope is
// left out: what a method's scope and a path's have in common, or a variable of
// several segments and the segments one by one. So the result never says more
// than what both allow. Errors as of [Compile].
func Intersect(a, b []string) ([]string, error) {
	left, err := parseAll(a)
	if err != nil {
		return nil, err
	}
	right, err := parseAll(b)
	if err != nil {
		return nil, err
	}
	var common []string
	for _, p := range left {
		for _, q := range right {
			if text := meet(p, q); text != "" && !slices.Contains(common, text) {
				common = append(common, text)
			}
		}
	}
	return common, nil
}

func parseAll(list []string) ([]pattern, error) {
	if len(list) == 0 {
		return []pattern{everything{}}, nil
	}
	all := make([]pattern, len(list))
	for i, text := range list {
		var err error
		if all[i], err = parse(text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// meet is the scope that covers what both patterns cover; "": there is none.
func meet(p, q pattern) string {
	switch p := p.(type) {
	case methodPattern:
		switch q := q.(type) {
		case everything:
			return p.String()
		case methodPattern:
			service, ok := meetParts(p.service, q.service)
			name, both := meetPart(p.name, q.name)
			if ok && both {
				return (&methodPattern{service, name}).String()
			}
		}
	case pathPattern:
		switch q := q.(type) {
		case everything:
			return p.String()
		case pathPattern:
			segments, ok := meetParts(p.segments, q.segments)
			if ok && (p.verb == q.verb || p.verb == "" || q.verb == "") {
				return (&pathPattern{cmp.Or(p.verb, q.verb), segments}).String()
			}
		}
	case everything:
		if _, ok := q.(everything); ok {
			return "*"
		}
		return meet(q, p)
	}
	return ""
}

func meetParts(p, q []part) ([]part, bool) {
	var both []part
	for i := 0; ; i++ {
		switch {
		case i < len(p) && p[i].kind == deep:
			return append(both, q[min(i, len(q)):]...), true
		case i < len(q) && q[i].kind == deep:
			return append(both, p[min(i, len(p)):]...), true
		case i == len(p) || i == len(q):
			return both, len(p) == len(q)
		}
		common, ok := meetPart(p[i], q[i])
		if !ok {
			return nil, false
		}
		both = append(both, common)
	}
}

// meetPart is the narrower of two parts, of which none is deep.
func meetPart(p, q part) (part, bool) {
	switch {
	case p.includes(q):
		return q, true
	case q.includes(p):
		return p, true
	}
	return part{}, false
}

// includes tells whether all that q covers p does.
func (p part) includes(q part) bool {
	switch p.kind {
	case anyOne:
		// A variable that says what it matches may have several segments.
		return q.kind != variable || !strings.Contains(q.text, "=")
	case prefix:
		return (q.kind == literal || q.kind == prefix) && strings.HasPrefix(q.text, p.text)
	default:
		return p == q
	}
}

// String is the scope as it is written.
func (m *methodPattern) String() string { return join(m.service, ".") + "/" + m.name.String() }

// String is the scope as it is written.
func (p *pathPattern) String() string {
	verb := p.verb
	if verb == "" {
		verb = "*"
	}
	return verb + " /" + join(p.segments, "/")
}

func join(parts []part, separator string) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// String is the part as it is written.
func (p part) String() string {
	switch p.kind {
	case anyOne:
		return "*"
	case prefix:
		return p.text + "*"
	case deep:
		return "**"
	default:
		return p.text
	}
}
