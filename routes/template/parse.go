package template

import (
	"fmt"
	"strings"
)

// The grammar, after google/api/http.proto. Each function below parses one
// rule of it.
//
//	Template  = "/" | "/" Segments [ Verb ] ;
//	Segments  = Segment { "/" Segment } ;
//	Segment   = "*" | "**" | LITERAL | Variable ;
//	Variable  = "{" FieldPath [ "=" Segments ] "}" ;   (Segments without Variable)
//	FieldPath = IDENT { "." IDENT } ;
//	Verb      = ":" LITERAL ;
//	LITERAL   = pchar { pchar } ;                      (RFC 3986, but no "*")
//	IDENT     = ( letter | "_" ) { letter | digit | "_" } ;
//
// A colon is a legal pchar, so where the verb begins needs a rule of its own,
// which is grpc-gateway's: in a last segment that is a literal the verb follows
// the last colon, after a wildcard or a variable it follows the first. A colon
// in any other segment belongs to that segment.
//
// As in grpc-gateway, and more than http.proto allows, "/" alone is a template
// and literals and single wildcards may follow the one "**".

// MaxLength is how many bytes a template may have. Templates come from
// descriptors too, which a backend may send; the longest honest ones have some
// hundred bytes.
const MaxLength = 4096

// A ParseError says what is wrong with a template, and where.
type ParseError struct {
	Template string
	Column   int // counted in bytes from 1
	Reason   string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("path template %q, column %d: %s", e.Template, e.Column, e.Reason)
}

// Parse parses a template. Its errors are *[ParseError].
func Parse(text string) (*Template, error) {
	if len(text) > MaxLength {
		return nil, &ParseError{text[:64] + "…", MaxLength + 1, fmt.Sprintf("longer than %d bytes", MaxLength)}
	}
	p := parser{text: text, t: &Template{source: text, deep: -1}}
	if err := p.template(); err != nil {
		return nil, err
	}
	return p.t, nil
}

type parser struct {
	text     string
	pos      int
	t        *Template
	variable bool // inside braces
}

func (p *parser) template() error {
	if !p.accept('/') {
		return p.errorf("must begin with /")
	}
	if p.pos == len(p.text) {
		p.t.Segments = []Segment{{Kind: Literal}}
		return nil
	}
	if err := p.segments(); err != nil {
		return err
	}
	if p.accept(':') {
		return p.verb()
	}
	if p.pos < len(p.text) {
		return p.errorf("unexpected %s: a segment ends at / or at the end", p.next())
	}
	return nil
}

func (p *parser) segments() error {
	for {
		if err := p.segment(); err != nil {
			return err
		}
		if !p.accept('/') {
			return nil
		}
	}
}

func (p *parser) segment() error {
	switch {
	case p.accept('*'):
		if p.accept('*') {
			return p.deepWildcard()
		}
		p.t.Segments = append(p.t.Segments, Segment{Kind: Wildcard})
		return p.endOfWildcard()
	case p.peek() == '{':
		if p.variable {
			return p.errorf("a variable cannot hold another variable")
		}
		return p.variableSegment()
	default:
		return p.literal()
	}
}

func (p *parser) deepWildcard() error {
	if p.t.deep >= 0 {
		p.pos -= 2
		return p.errorf("a second **: there can be only one")
	}
	p.t.deep = len(p.t.Segments)
	p.t.Segments = append(p.t.Segments, Segment{Kind: DeepWildcard})
	return p.endOfWildcard()
}

func (p *parser) endOfWildcard() error {
	switch p.peek() {
	case 0, '/', ':', '}':
		return nil
	}
	return p.errorf("unexpected %s: a wildcard is a whole segment, * or **", p.next())
}

func (p *parser) variableSegment() error {
	open := p.pos
	p.accept('{')
	v := Variable{From: len(p.t.Segments)}
	var err error
	if v.FieldPath, err = p.fieldPath(); err != nil {
		return err
	}
	for _, other := range p.t.Variables {
		if other.FieldPath == v.FieldPath {
			p.pos = open + 1
			return p.errorf("variable %s is bound a second time", v.FieldPath)
		}
	}
	if p.accept('=') {
		p.variable = true
		err = p.segments()
		p.variable = false
		if err != nil {
			return err
		}
	} else {
		p.t.Segments = append(p.t.Segments, Segment{Kind: Wildcard})
	}
	if !p.accept('}') {
		if p.pos == len(p.text) {
			p.pos = open
			return p.errorf("this { is never closed")
		}
		return p.errorf("unexpected %s: variable %s must end with }", p.next(), v.FieldPath)
	}
	v.To = len(p.t.Segments)
	p.t.Variables = append(p.t.Variables, v)
	return nil
}

func (p *parser) fieldPath() (string, error) {
	start := p.pos
	for {
		if err := p.ident(); err != nil {
			return "", err
		}
		if !p.accept('.') {
			return p.text[start:p.pos], nil
		}
	}
}

func (p *parser) ident() error {
	start := p.pos
	for p.pos < len(p.text) && isIdent(p.text[p.pos], p.pos > start) {
		p.pos++
	}
	if p.pos == start {
		return p.errorf("expected a field name, found %s", p.next())
	}
	return nil
}

// literal parses a literal segment. It leaves the verb, if there is one, to be
// parsed next.
func (p *parser) literal() error {
	end := p.pos
	for end < len(p.text) && p.text[end] != '/' && (!p.variable || p.text[end] != '}') {
		end++
	}
	if end == len(p.text) && !p.variable {
		if colon := strings.LastIndexByte(p.text[p.pos:], ':'); colon >= 0 {
			end = p.pos + colon
		}
	}
	if end == p.pos {
		if p.peek() == ':' {
			return p.errorf("a verb needs a segment before it")
		}
		return p.errorf("empty segment")
	}
	text, err := p.pchars(end)
	if err != nil {
		return err
	}
	p.t.Segments = append(p.t.Segments, Segment{Kind: Literal, Text: text})
	return nil
}

func (p *parser) verb() error {
	if p.pos == len(p.text) {
		return p.errorf("empty verb after the colon")
	}
	var err error
	p.t.Verb, err = p.pchars(len(p.text))
	return err
}

// pchars consumes the text up to end, which must all be pchars, and decodes it.
func (p *parser) pchars(end int) (string, error) {
	var b strings.Builder
	for p.pos < end {
		c := p.text[p.pos]
		switch {
		case c == '%':
			if p.pos+2 >= end || !isHex(p.text[p.pos+1]) || !isHex(p.text[p.pos+2]) {
				return "", p.errorf("%% must be followed by two hex digits")
			}
			b.WriteByte(unhex(p.text[p.pos+1])<<4 | unhex(p.text[p.pos+2]))
			p.pos += 3
			continue
		case c == '*':
			return "", p.errorf("a wildcard is a whole segment; a literal * is written %%2A")
		case !isPChar(c):
			return "", p.errorf("unexpected %s: not allowed in a literal, escape it with %%", p.next())
		}
		b.WriteByte(c)
		p.pos++
	}
	return b.String(), nil
}

// peek gives the next byte, 0 at the end. (A NUL is no legal byte of a
// template, so whoever takes it for the end refuses the rest.)
func (p *parser) peek() byte {
	if p.pos == len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

func (p *parser) accept(c byte) bool {
	if p.pos == len(p.text) || p.text[p.pos] != c {
		return false
	}
	p.pos++
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
	return &ParseError{Template: p.text, Column: p.pos + 1, Reason: fmt.Sprintf(format, args...)}
}
