package template

import (
	"fmt"
	"strings"
)

// A Path is a request's path, cut into segments and percent-decoded, ready to
// be matched. It may be parsed into again and again; only its slice is reused,
// never the text that variables were cut from.
//
// It is cut at its slashes first and decoded after, each segment exactly once.
// grpc-gateway's default (UnescapingModeLegacy) has net/url decode the whole
// path before it cuts. The two differ in the one point of the escaped slash: to
// that default it is a slash like any other; here, as in grpc-gateway's other
// modes, it is text of its segment, and so can be part of a variable.
type Path struct {
	text   string // decoded, without the leading slash
	starts []int  // where each segment begins in text, and as last one len(text)+1
	room   [someSegments]int
}

// keepSegments is how many segments' room a Path keeps for the next parse. It
// is there so that one absurd path doesn't hold its memory for good.
const keepSegments = 256

// someSegments is how many segments, and one, a Path has room for at once: few
// paths have more, and to grow step by step would cost each call some
// allocations.
const someSegments = 8

// A PathError is a path that is not one: without a leading slash, or with a
// malformed escape.
type PathError struct {
	Reason string
}

func (e *PathError) Error() string { return "malformed path: " + e.Reason }

// Parse takes a path as it stands in the request line: escaped, without the
// query. Its errors are *[PathError].
func (p *Path) Parse(raw string) error {
	if raw == "" || raw[0] != '/' {
		return &PathError{Reason: "it must begin with /"}
	}
	raw = raw[1:]
	if c := cap(p.starts); c == 0 || c > keepSegments {
		p.starts = p.room[:0]
	}
	p.starts = append(p.starts[:0], 0)
	if strings.IndexByte(raw, '%') >= 0 {
		return p.parseEscaped(raw)
	}
	p.text = raw
	for i := 0; ; {
		slash := strings.IndexByte(raw[i:], '/')
		if slash < 0 {
			break
		}
		i += slash + 1
		p.starts = append(p.starts, i)
	}
	p.starts = append(p.starts, len(raw)+1)
	return nil
}

func (p *Path) parseEscaped(raw string) error {
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '/':
			b.WriteByte(c)
			p.starts = append(p.starts, b.Len())
		case '%':
			if i+2 >= len(raw) || !isHex(raw[i+1]) || !isHex(raw[i+2]) {
				return &PathError{Reason: fmt.Sprintf("malformed escape %q", raw[i:min(i+3, len(raw))])}
			}
			b.WriteByte(unhex(raw[i+1])<<4 | unhex(raw[i+2]))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	p.text = b.String()
	p.starts = append(p.starts, len(p.text)+1)
	return nil
}

// count gives the number of segments; it is at least 1.
func (p *Path) count() int { return len(p.starts) - 1 }

func (p *Path) segment(i int) string { return p.text[p.starts[i] : p.starts[i+1]-1] }

// join gives segments from to to (not included), with the slashes between them.
// There must be at least one.
func (p *Path) join(from, to int) string { return p.text[p.starts[from] : p.starts[to]-1] }

// trimVerb takes the verb off the last segment, which ends with it.
func (p *Path) trimVerb(verb string) {
	if verb != "" {
		p.starts[len(p.starts)-1] -= len(verb) + 1
	}
}

// appendVars appends the values of t's variables in p, which t matches and from
// which t's verb has been trimmed.
func (p *Path) appendVars(vars []string, t *Template) []string {
	// How many more segments the path has than the template. Not 0 only if
	// there is a **, and -1 if that matched nothing.
	more := p.count() - len(t.Segments)
	for _, v := range t.Variables {
		from, to := v.From, v.To
		var value string
		switch {
		case t.deep < 0 || to <= t.deep:
			value = p.join(from, to)
		case from > t.deep:
			value = p.join(from+more, to+more)
		case more >= 0:
			value = p.join(from, to+more)
		default:
			value = p.joinAroundNothing(from, t.deep, to+more)
		}
		vars = append(vars, value)
	}
	return vars
}

// joinAroundNothing joins segments around a ** at deep that matched nothing.
// Beside other segments it counts as one empty segment, as in grpc-gateway, so
// that `{name=files/**}` gives the same for /files and /files/.
func (p *Path) joinAroundNothing(from, deep, to int) string {
	switch {
	case from == deep && to == deep:
		return ""
	case from == deep:
		return "/" + p.join(deep, to)
	case to == deep:
		return p.join(from, deep) + "/"
	default:
		return p.join(from, deep) + "//" + p.join(deep, to)
	}
}
