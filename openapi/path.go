package openapi

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/rpcgate/rpcgate/routes/template"
)

// A path is a path template as OpenAPI has it, where a parameter is a part of
// one segment.
type path struct {
	// shape is the path with its parameters' names left out. OpenAPI takes paths
	// of one shape for the same.
	shape string
	parts []pathPart
	verb  string // with its colon, escaped
}

// A pathPart is a segment: a literal, or a parameter.
type pathPart struct {
	literal  string // escaped
	wildcard bool
	deep     bool // `**`
	name     string
	variable string // the field path that it is bound to, or part of; empty: bound to none
	whole    bool   // it is all of the variable
	note     string
}

// newPath gives a template's path. A variable that spans several segments
// becomes its literals and a parameter for each of its wildcards, since a
// parameter's slashes would be escaped, and an escaped slash divides nothing.
func newPath(tmpl *template.Template) path {
	p := path{parts: make([]pathPart, len(tmpl.Segments))}
	names := make(map[string]bool)
	for i, s := range tmpl.Segments {
		if s.Kind == template.Literal {
			p.parts[i].literal = url.PathEscape(s.Text)
			continue
		}
		part := pathPart{wildcard: true, deep: s.Kind == template.DeepWildcard, name: "segment"}
		for _, v := range tmpl.Variables {
			if v.From > i || v.To <= i {
				continue
			}
			part.variable, part.name, part.whole = v.FieldPath, v.FieldPath, v.To-v.From == 1
			if !part.whole {
				part.name = partName(tmpl, v, i)
				part.note = fmt.Sprintf("Part of `%s`, which is `%s`.", v.FieldPath, segmentsText(tmpl.Segments[v.From:v.To]))
			}
		}
		if part.deep {
			part.note = paragraphs(part.note, "Any number of segments, with slashes between, which may be escaped here.")
		}
		part.name = unused(names, part.name)
		p.parts[i] = part
	}
	if tmpl.Verb != "" {
		p.verb = ":" + url.PathEscape(tmpl.Verb)
	}
	p.shape = p.text(func(int) string { return "" })
	return p
}

// partName names a wildcard within a variable after the literal before it, as
// resource names have them: the book of books/*.
func partName(tmpl *template.Template, v template.Variable, i int) string {
	if i > v.From && tmpl.Segments[i-1].Kind == template.Literal {
		if name := strings.Trim(plainKey(strings.TrimSuffix(tmpl.Segments[i-1].Text, "s")), "."); name != "" {
			return name
		}
	}
	return v.FieldPath
}

func unused(names map[string]bool, name string) string {
	free := name
	for n := 2; names[free]; n++ {
		free = name + "_" + strconv.Itoa(n)
	}
	names[free] = true
	return free
}

func segmentsText(segments []template.Segment) string {
	words := make([]string, len(segments))
	for i, s := range segments {
		switch s.Kind {
		case template.Literal:
			words[i] = s.Text
		case template.Wildcard:
			words[i] = "*"
		default:
			words[i] = "**"
		}
	}
	return strings.Join(words, "/")
}

// text writes the path with the names of its parameters, by index of parts.
func (p *path) text(name func(int) string) string {
	var b strings.Builder
	for i, part := range p.parts {
		b.WriteByte('/')
		if part.wildcard {
			b.WriteString("{" + name(i) + "}")
		} else {
			b.WriteString(part.literal)
		}
	}
	return b.String() + p.verb
}

func (p *path) String() string { return p.text(func(i int) string { return p.parts[i].name }) }
