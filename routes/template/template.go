// Package template owns the path templates of google.api.http: their grammar,
// and a trie that finds the one that a path matches.
//
// It promises that a match costs the same however many templates there are,
// that it allocates nothing for a path without escapes, and that wherever a
// path holds no escaped slash the outcome is what grpc-gateway's runtime gives
// by default. See [Path] for the escaped slash.
package template

import (
	"net/url"
	"strings"
)

// A Kind says what a segment matches.
type Kind uint8

// The kinds of segments, in the order in which the trie tries them.
const (
	Literal      Kind = iota // one path segment, equal to Text
	Wildcard                 // `*`: any one path segment, an empty one too
	DeepWildcard             // `**`: any number of path segments, none too
)

// A Segment is one segment of a template. Segments inside a variable are
// segments of the template like all others.
type Segment struct {
	Kind Kind
	Text string // a literal's text, percent-decoded
}

// A Variable binds the text that Segments[From:To] match to a field.
type Variable struct {
	FieldPath string // dotted proto field names
	From, To  int
}

// A Template is a parsed path template. It is not changed after [Parse].
type Template struct {
	Segments  []Segment
	Variables []Variable // in the order of the text
	Verb      string     // without the colon, percent-decoded; empty: none

	source string
	deep   int // the index of the `**` in Segments; -1: none
}

// String gives the template as it was written.
func (t *Template) String() string { return t.source }

// FieldPaths gives the field paths of the variables, in the order of the text.
func (t *Template) FieldPaths() []string {
	paths := make([]string, len(t.Variables))
	for i, v := range t.Variables {
		paths[i] = v.FieldPath
	}
	return paths
}

// Example gives a path that the template matches, escaped as a URL needs it.
func (t *Template) Example() string {
	var b strings.Builder
	for i, s := range t.Segments {
		b.WriteByte('/')
		if s.Kind == Literal {
			b.WriteString(url.PathEscape(s.Text))
			continue
		}
		b.WriteByte(byte('a' + i%26))
	}
	if t.Verb != "" {
		b.WriteString(":" + url.PathEscape(t.Verb))
	}
	return b.String()
}
