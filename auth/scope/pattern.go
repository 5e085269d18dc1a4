package scope

import "strings"

// pattern is one parsed scope: everything, methodPattern or pathPattern.
type pattern interface{ isPattern() }

// everything is the scope "*".
type everything struct{}

// methodPattern covers methods, in whichever way they are called.
type methodPattern struct {
	service []part // the last may be deep
	name    part
}

// pathPattern covers HTTP routes by verb and template.
type pathPattern struct {
	verb     string // empty: any
	segments []part // the last may be deep
}

func (everything) isPattern()    {}
func (methodPattern) isPattern() {}
func (pathPattern) isPattern()   {}

// part is what stands between two separators of a pattern.
type part struct {
	kind kind
	text string // of literal, prefix and variable
}

type kind uint8

const (
	literal  kind = iota // this text
	prefix               // this text, and any rest of the part
	variable             // this variable of a template, by its text
	anyOne               // any one part
	deep                 // any number of parts, none too
)

// matches tells whether a part covers the plain text of one.
func (p *part) matches(text string) bool {
	switch p.kind {
	case anyOne:
		return true
	case prefix:
		return strings.HasPrefix(text, p.text)
	default:
		return p.kind == literal && p.text == text
	}
}

// exact tells whether the pattern covers one method and no other.
func (m *methodPattern) exact() bool {
	for i := range m.service {
		if m.service[i].kind != literal {
			return false
		}
	}
	return m.name.kind == literal
}

// covers tells whether method, "package.Service/Name", is one of the pattern's.
func (m *methodPattern) covers(method string) bool {
	service, name, ok := strings.Cut(method, "/")
	if !ok || !m.name.matches(name) {
		return false
	}
	for i := range m.service {
		p := &m.service[i]
		if p.kind == deep {
			return true
		}
		text, rest, more := strings.Cut(service, ".")
		if !p.matches(text) {
			return false
		}
		if !more {
			return m.endsAfter(i)
		}
		service = rest
	}
	return false
}

// endsAfter tells whether nothing need follow part i of the service.
func (m *methodPattern) endsAfter(i int) bool { return endsAfter(m.service, i) }

func endsAfter(parts []part, i int) bool {
	rest := parts[i+1:]
	return len(rest) == 0 || rest[0].kind == deep
}

// covers tells whether all requests that a route takes are the pattern's: each
// segment of the template, those inside variables too, must be covered by the
// segment in its place. A wildcard of the template stands for any text, and so
// only a wildcard covers it, or the variable that it is in, word for word.
func (p *pathPattern) covers(verb, template string) bool {
	if p.verb != "" && p.verb != verb {
		return false
	}
	w := walker{text: template}
	for i := range p.segments {
		s := &p.segments[i]
		if s.kind == deep {
			return true
		}
		if s.kind == variable {
			if !w.skip(s.text) {
				return false
			}
		} else if text, k, ok := w.next(); !ok || !coversSegment(s, text, k) {
			return false
		}
		if w.atEnd() {
			return endsAfter(p.segments, i)
		}
	}
	return false
}

// coversSegment tells whether s covers a segment of a template, of kind k.
func coversSegment(s *part, text string, k kind) bool {
	switch k {
	case literal:
		return s.matches(text)
	case anyOne:
		return s.kind == anyOne
	default:
		return false // ** is covered by ** alone
	}
}

// walker goes through the segments of a template, in its text, those inside
// variables among them. A template's verb belongs to its last segment.
type walker struct {
	text   string // what is left behind the variable or segment the walker is at
	inner  string // what is left of the variable that the walker is in
	in     bool
	suffix bool // a verb follows the variable that the walker is in
}

// next gives the next segment. ok is false for what no template looks like.
func (w *walker) next() (text string, k kind, ok bool) {
	if w.in {
		return w.nextInner()
	}
	if w.text == "" || w.text[0] != '/' {
		return "", 0, false
	}
	rest := w.text[1:]
	end := strings.IndexByte(rest, '/')
	if strings.HasPrefix(rest, "{") {
		closing := strings.IndexByte(rest, '}')
		if closing < 0 {
			return "", 0, false
		}
		name, inner, given := strings.Cut(rest[1:closing], "=")
		if name == "" {
			return "", 0, false
		}
		if end = strings.IndexByte(rest[closing:], '/'); end >= 0 {
			end += closing
		}
		_, w.text = cutAt(rest, end)
		if !given {
			return "", anyOne, true
		}
		w.in, w.inner, w.suffix = true, inner, len(rest)-len(w.text) > closing+1
		return w.nextInner()
	}
	text, w.text = cutAt(rest, end)
	return text, kindOf(text), true
}

func (w *walker) nextInner() (text string, k kind, ok bool) {
	text, w.inner, w.in = strings.Cut(w.inner, "/")
	if k = kindOf(text); k == literal && !w.in && w.suffix {
		k = anyOne // the verb stands elsewhere in the text: a wildcard alone covers both
	}
	return text, k, true
}

// cutAt cuts at an index, which is negative for the end.
func cutAt(s string, i int) (before, after string) {
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

// kindOf tells what a segment of a template is, with the verb that may follow.
func kindOf(text string) kind {
	switch {
	case strings.HasPrefix(text, "**"):
		return deep
	case strings.HasPrefix(text, "*"):
		return anyOne
	default:
		return literal
	}
}

// skip goes past a variable that is, with what follows it in its segment, text.
func (w *walker) skip(text string) bool {
	if w.in || w.text == "" {
		return false
	}
	rest, ok := strings.CutPrefix(w.text[1:], text)
	if !ok || rest != "" && rest[0] != '/' {
		return false
	}
	w.text = rest
	return true
}

func (w *walker) atEnd() bool { return !w.in && w.text == "" }
