package scope

import (
	"fmt"
	"strings"
)

// The grammar. Each function below parses one rule of it.
//
//	Scope    = "*" | Method | Route ;
//	Method   = Service "/" Name ;
//	Service  = "**" | Name { "." Name } [ "." "**" ] ;
//	Name     = "*" | IDENT [ "*" ] ;
//	Route    = ( "*" | VERB ) " " Path ;
//	Path     = "/" | "/" Segments ;
//	Segments = "**" | Segment { "/" Segment } [ "/" "**" ] ;
//	Segment  = "*" | LITERAL [ "*" ] | VARIABLE ;
//	IDENT    = ( letter | "_" ) { letter | digit | "_" } ;
//	VERB     = upper { upper | "-" } ;
//	LITERAL  = pchar { pchar } ;              (RFC 3986, but no "*" and no ",")
//	VARIABLE = "{" … "}" [ ":" LITERAL ] ;    (as in a path template)
//
// A comma is left out so that scopes can be listed in one line.

type parser struct {
	text string
	pos  int
}

func parse(text string) (pattern, error) {
	if len(text) > MaxLength {
		return nil, errLong
	}
	p := parser{text: text}
	switch {
	case text == "":
		return nil, p.errorf("is empty")
	case text == "*":
		return everything{}, nil
	case strings.ContainsRune(text, ' '):
		return p.route()
	case text[0] == '/':
		return nil, p.errorf("a path needs a verb and a space before it, as in \"GET /v1/**\"; * stands for all verbs")
	}
	return p.method()
}

func (p *parser) method() (pattern, error) {
	var m methodPattern
	for {
		if p.accept("**") {
			m.service = append(m.service, part{kind: deep})
			if p.peek() != '/' {
				return nil, p.errorf("expected / after **, found %s", p.next())
			}
		} else {
			name, err := p.name()
			if err != nil {
				return nil, err
			}
			m.service = append(m.service, name)
		}
		switch {
		case p.accept("."):
			continue
		case p.accept("/"):
		case p.pos == len(p.text):
			return nil, p.errorf("a method is missing: write package.Service/Method, or package.Service/* for all")
		default:
			return nil, p.errorf("unexpected %s", p.next())
		}
		break
	}
	if p.peek() == '*' && strings.HasPrefix(p.text[p.pos:], "**") {
		return nil, p.errorf("a method is one name: write *, not **")
	}
	var err error
	if m.name, err = p.name(); err != nil {
		return nil, err
	}
	if p.pos < len(p.text) {
		return nil, p.errorf("unexpected %s after the method", p.next())
	}
	return m, nil
}

// name parses a name of a service or method, or a beginning of one.
func (p *parser) name() (part, error) {
	start := p.pos
	for p.pos < len(p.text) && isIdent(p.text[p.pos], p.pos > start) {
		p.pos++
	}
	text := p.text[start:p.pos]
	star := p.accept("*")
	switch {
	case star && text == "":
		if p.peek() == '*' {
			return part{}, p.errorf("** stands for the rest of a service's name: write it last, before the /")
		}
		return part{kind: anyOne}, nil
	case star:
		return part{prefix, text}, nil
	case text == "":
		return part{}, p.errorf("expected a name or *, found %s", p.next())
	}
	return part{literal, text}, nil
}

func (p *parser) route() (pattern, error) {
	var r pathPattern
	if !p.accept("*") {
		for 'A' <= p.peek() && p.peek() <= 'Z' || p.pos > 0 && p.peek() == '-' {
			p.pos++
		}
		if r.verb = p.text[:p.pos]; r.verb == "" {
			return nil, p.errorf("expected a verb in capitals or *, found %s", p.next())
		}
	}
	if !p.accept(" ") {
		return nil, p.errorf("expected a space after the verb, found %s", p.next())
	}
	if !p.accept("/") {
		return nil, p.errorf("expected a path, which begins with /, found %s", p.next())
	}
	if p.pos == len(p.text) {
		r.segments = []part{{kind: literal}}
		return r, nil
	}
	for {
		s, err := p.segment()
		if err != nil {
			return nil, err
		}
		r.segments = append(r.segments, s)
		if p.pos == len(p.text) {
			return r, nil
		}
		if s.kind == deep {
			return nil, p.errorf("** stands for all the rest: nothing can follow it")
		}
		if !p.accept("/") {
			return nil, p.errorf("unexpected %s: a segment ends at / or at the end", p.next())
		}
	}
}

func (p *parser) segment() (part, error) {
	switch {
	case p.accept("**"):
		return part{kind: deep}, nil
	case p.accept("*"):
		return part{kind: anyOne}, nil
	case p.peek() == '{':
		return p.variable()
	}
	text, err := p.literal()
	switch {
	case err != nil:
		return part{}, err
	case text == "":
		return part{}, p.errorf("expected a segment, found %s", p.next())
	case p.accept("*"):
		return part{prefix, text}, nil
	}
	return part{literal, text}, nil
}

// variable takes a variable of a template as it is: there it has been parsed.
func (p *parser) variable() (part, error) {
	start := p.pos
	end := strings.IndexByte(p.text[start:], '}')
	if end < 0 {
		return part{}, p.errorf("this { is never closed")
	}
	for p.accept("{"); p.peek() != '}'; p.pos++ {
		if c := p.peek(); c != '*' && c != '/' && c != '%' && !isPChar(c) {
			return part{}, p.errorf("unexpected %s in a variable", p.next())
		}
	}
	p.accept("}")
	if p.peek() == ':' {
		if _, err := p.literal(); err != nil {
			return part{}, err
		}
	}
	return part{variable, p.text[start:p.pos]}, nil
}

// literal takes the pchars that come next, as they are written.
func (p *parser) literal() (string, error) {
	start := p.pos
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == '%':
			if p.pos+2 >= len(p.text) || !isHex(p.text[p.pos+1]) || !isHex(p.text[p.pos+2]) {
				return "", p.errorf("%% must be followed by two hex digits")
			}
			p.pos += 3
			continue
		case c == ',':
			return "", p.errorf("a comma cannot stand in a scope: use * for the segment")
		case !isPChar(c):
			return p.text[start:p.pos], nil
		}
		p.pos++
	}
	return p.text[start:], nil
}

// peek gives the next byte, 0 at the end. A NUL is no legal byte of a scope.
func (p *parser) peek() byte {
	if p.pos == len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

func (p *parser) accept(s string) bool {
	if !strings.HasPrefix(p.text[p.pos:], s) {
		return false
	}
	p.pos += len(s)
	return true
}

// next names what comes next, for errors.
func (p *parser) next() string {
	for _, r := range p.text[p.pos:] {
		return fmt.Sprintf("%q", r)
	}
	return "the end"
}

func (p *parser) errorf(format string, args ...any) error {
	return &ParseError{Scope: p.text, Column: p.pos + 1, Reason: fmt.Sprintf(format, args...)}
}

func isIdent(c byte, digits bool) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || digits && '0' <= c && c <= '9'
}

// isPChar tells whether c may stand for itself in a path segment (RFC 3986,
// section 3.3), but for the star and the comma.
func isPChar(c byte) bool {
	return isIdent(c, true) || c != 0 && strings.IndexByte("-.~!$&'()+;=:@", c) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
