package gozero

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// section is a mapping of go-zero's file. Its keys are taken one by one, in any
// case of letters, as go-zero has them; what nobody took is noted in the end. A
// nil section is empty.
type section struct {
	c       *conversion
	path    string
	line    int
	entries map[string]*entry // by the name in lower case
	inner   []*section        // those that were taken
}

type entry struct {
	name  string // as written
	line  int
	value *yaml.Node
	taken bool
}

// section reads a mapping.
func (c *conversion) section(n *yaml.Node, path string) *section {
	n = resolved(n)
	if n.Kind != yaml.MappingNode {
		c.fault(n.Line, path, "is not a mapping of keys to values")
		return nil
	}
	s := &section{c: c, path: path, line: n.Line, entries: map[string]*entry{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolved(n.Content[i+1])
		if value.Tag == "!!null" {
			continue // as good as absent
		}
		s.entries[strings.ToLower(key.Value)] = &entry{name: key.Value, line: key.Line, value: value}
	}
	return s
}

func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func (s *section) take(name string) *entry {
	if s == nil {
		return nil
	}
	e := s.entries[strings.ToLower(name)]
	if e != nil {
		e.taken = true
	}
	return e
}

// takeAll takes what is left, so that it is not noted key by key.
func (s *section) takeAll() {
	for _, e := range s.entries {
		e.taken = true
	}
}

// key is the path of an entry of the section.
func (s *section) key(name string) string {
	if s.path == "" {
		return name
	}
	return s.path + "." + name
}

// has tells whether a key is there; it does not take it.
func (s *section) has(name string) bool {
	return s != nil && s.entries[strings.ToLower(name)] != nil
}

// text takes a scalar.
func (s *section) text(name string) string {
	e := s.take(name)
	switch {
	case e == nil:
		return ""
	case e.value.Kind != yaml.ScalarNode:
		s.c.fault(e.line, s.key(e.name), "is not a single value")
		return ""
	}
	return e.value.Value
}

// number takes a whole number that is not negative.
func (s *section) number(name string, absent int64) int64 {
	text := s.text(name)
	if text == "" {
		return absent
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		e := s.entries[strings.ToLower(name)]
		s.c.fault(e.line, s.key(e.name), "is not a whole number from 0 on")
		return absent
	}
	return n
}

// milliseconds takes a duration that is a number of milliseconds.
func (s *section) milliseconds(name string, absent int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(s.number(name, absent), most)) * time.Millisecond
}

// duration takes a duration with a unit, which may be absent.
func (s *section) duration(name string) (time.Duration, bool) {
	text := s.text(name)
	if text == "" {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		e := s.entries[strings.ToLower(name)]
		s.c.fault(e.line, s.key(e.name), "is not a duration")
		return 0, false
	}
	return d, true
}

// flag takes a truth value.
func (s *section) flag(name string, absent bool) bool {
	text := s.text(name)
	if text == "" {
		return absent
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		e := s.entries[strings.ToLower(name)]
		s.c.fault(e.line, s.key(e.name), "is neither true nor false")
		return absent
	}
	return b
}

// list takes a list of scalars.
func (s *section) list(name string) []string {
	e := s.take(name)
	if e == nil {
		return nil
	}
	if e.value.Kind != yaml.SequenceNode {
		s.c.fault(e.line, s.key(e.name), "is not a list")
		return nil
	}
	var texts []string
	for _, item := range e.value.Content {
		item = resolved(item)
		if item.Kind != yaml.ScalarNode {
			s.c.fault(item.Line, s.key(e.name), "has something else than single values")
			continue
		}
		texts = append(texts, item.Value)
	}
	return texts
}

// section takes a section; nil where there is none.
func (s *section) section(name string) *section {
	e := s.take(name)
	if e == nil {
		return nil
	}
	inner := s.c.section(e.value, s.key(e.name))
	if inner != nil {
		s.inner = append(s.inner, inner)
	}
	return inner
}

// sections takes a list of sections.
func (s *section) sections(name string) []*section {
	e := s.take(name)
	if e == nil {
		return nil
	}
	if e.value.Kind != yaml.SequenceNode {
		s.c.fault(e.line, s.key(e.name), "is not a list")
		return nil
	}
	var all []*section
	for i, item := range e.value.Content {
		if inner := s.c.section(item, fmt.Sprintf("%s[%d]", s.key(e.name), i)); inner != nil {
			all = append(all, inner)
		}
	}
	s.inner = append(s.inner, all...)
	return all
}

// noteAt notes something of a key, if it is there.
func (s *section) noteAt(name, format string, args ...any) {
	if e := s.take(name); e != nil {
		s.c.note(e.line, s.key(e.name), format, args...)
	}
}

// drop notes that a key, if it is there, has no counterpart.
func (s *section) drop(why string, names ...string) {
	for _, name := range names {
		s.noteAt(name, "not carried over: %s", why)
	}
}

// leftOver notes what nobody took.
func (c *conversion) leftOver(s *section) {
	names := make([]string, 0, len(s.entries))
	for name, e := range s.entries {
		if !e.taken {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		e := s.entries[name]
		c.note(e.line, s.key(e.name), "not carried over: not known of go-zero's gateway")
	}
	for _, inner := range s.inner {
		c.leftOver(inner)
	}
}
