// Package scope owns the allow-lists of apps and tokens: their grammar, and
// whether one allows a call. It is pure: it knows no app, no token, no route
// table.
//
// A scope is one pattern; a [Set] allows what one of its scopes covers. What a
// scope covers is decided by a call's method and by the template of its route,
// never by the path as it was sent, so that no way to spell a path gets round
// one.
package scope

import (
	"errors"
	"fmt"
)

// Bounds of what [Compile] takes.
const (
	MaxScopes = 128 // in one set
	MaxLength = 256 // bytes of one scope
)

// A Target is what a call wants.
type Target struct {
	// Method is the RPC method, whichever way the call came: "shop.OrderService/GetOrder".
	Method string
	// Verb and Path are those of the HTTP route that matched: "GET", or "*" for a
	// route of all verbs, and the path template. Both are empty for callers of RPC
	// protocols.
	Verb, Path string
}

// A Set is a compiled list of scopes. It is not changed after [Compile], and
// its methods may be called by any number of goroutines. The nil Set, which is
// that of no scopes at all, allows everything.
type Set struct {
	all     bool
	exact   map[string]struct{} // methods without a wildcard
	methods []methodPattern     // those with one
	paths   []pathPattern
}

// Compile compiles a list of scopes; none at all gives nil. The errors name the
// scope and the place in it.
func Compile(list []string) (*Set, error) {
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // the nil Set allows everything, see Set
	}
	if len(list) > MaxScopes {
		return nil, fmt.Errorf("%d scopes: there may be %d", len(list), MaxScopes)
	}
	s := &Set{exact: make(map[string]struct{})}
	for _, text := range list {
		p, err := parse(text)
		if err != nil {
			return nil, err
		}
		s.add(text, p)
	}
	return s, nil
}

func (s *Set) add(text string, p pattern) {
	switch p := p.(type) {
	case everything:
		s.all = true
	case methodPattern:
		if p.exact() {
			s.exact[text] = struct{}{}
		} else {
			s.methods = append(s.methods, p)
		}
	case pathPattern:
		s.paths = append(s.paths, p)
	}
}

// Allows tells whether a scope of the set covers t. It allocates nothing.
func (s *Set) Allows(t Target) bool {
	if s == nil || s.all {
		return true
	}
	if _, ok := s.exact[t.Method]; ok {
		return true
	}
	for i := range s.methods {
		if s.methods[i].covers(t.Method) {
			return true
		}
	}
	if t.Path == "" {
		return false
	}
	for i := range s.paths {
		if s.paths[i].covers(t.Verb, t.Path) {
			return true
		}
	}
	return false
}

// A ParseError says what is wrong with a scope, and where.
type ParseError struct {
	Scope  string
	Column int // counted in bytes from 1
	Reason string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("scope %q, column %d: %s", e.Scope, e.Column, e.Reason)
}

// errLong is apart from ParseError: it does not repeat the text.
var errLong = errors.New("a scope is longer than 256 bytes")
