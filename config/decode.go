package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxAliased bounds how many values a file has by its aliases: few lines can
	// make billions.
	maxAliased = 100_000
	// maxPath bounds how deep values lie in each other, in bytes of their key path.
	maxPath = 2 << 10
)

// source remembers where in a file each key stands.
type source struct {
	file  string
	marks map[string]mark // by key path
}

// mark is the place of one key's value.
type mark struct {
	line, column int
	// shown is the value as the file has it, where environment variables make
	// the real one: that may be secret, and is not for messages.
	shown string
}

// at finds the place of a key, or of the nearest section around it that the file has.
func (s *source) at(path string) mark {
	for {
		if m, ok := s.marks[path]; ok {
			return m
		}
		if path == "" {
			return mark{line: 1, column: 1}
		}
		path = parentPath(path)
	}
}

// decoder turns YAML nodes into a configuration, and goes on after each fault.
type decoder struct {
	source source
	lookup func(string) (string, bool)
	faults Faults
	broken map[string]bool // key paths with a fault
	inside []*yaml.Node    // the aliased nodes that are being decoded

	aliased int  // values read by way of aliases so far
	stopped bool // too many of those, or of faults: the rest is not read
}

func (d *decoder) fault(n *yaml.Node, path, format string, args ...any) {
	if len(d.faults) > maxFaults { // enough for sorted to see that there are more
		d.stopped = true
		return
	}
	d.broken[path] = true
	d.faults = append(d.faults, Fault{
		File: d.source.file, Line: max(n.Line, 1), Column: max(n.Column, 1),
		Key: path, Message: fmt.Sprintf(format, args...),
	})
}

// spend counts what is read by way of aliases, and stops the decoder at its bound.
func (d *decoder) spend(n *yaml.Node, path string, values int) {
	if len(d.inside) == 0 {
		return
	}
	if d.aliased += values; d.aliased > maxAliased && !d.stopped {
		d.fault(n, path, "the file's aliases make it too large; the rest of it is not read")
		d.stopped = true
	}
}

// decode sets v, which has its defaults, from what the file has at path.
func (d *decoder) decode(v reflect.Value, n *yaml.Node, path string) {
	if d.spend(n, path, 1); d.stopped {
		return
	}
	if len(path) > maxPath {
		d.fault(n, "", "values lie too deep in each other")
		return
	}
	d.source.marks[path] = mark{line: n.Line, column: n.Column}
	if n.Kind == yaml.AliasNode {
		target := n.Alias
		if slices.Contains(d.inside, target) {
			d.fault(n, path, "the alias *%s stands inside of what it names", n.Value)
			return
		}
		d.inside = append(d.inside, target)
		d.decode(v, target, path)
		d.inside = d.inside[:len(d.inside)-1]
		return
	}
	if n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.ShortTag(), "!!") {
		d.fault(n, path, "the YAML tag %s means nothing here", quote(n.Tag))
		return
	}
	null := n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
	switch {
	case isScalar(v.Type()):
		d.decodeScalar(v, n, path)
	case v.Kind() == reflect.Pointer:
		// A section whose presence alone means something must not come or go by an oversight.
		if null {
			d.fault(n, path, "has nothing in it; write {} for its defaults, or leave the key out")
			return
		}
		p := reflect.New(v.Type().Elem())
		setDefaults(p.Elem())
		v.Set(p)
		d.decode(p.Elem(), n, path)
	case null:
		// All that was below is commented out: as good as absent.
	case v.Kind() == reflect.Struct:
		d.decodeSection(v, n, path)
	case v.Kind() == reflect.Slice:
		d.decodeList(v, n, path)
	case v.Kind() == reflect.Map:
		d.decodeMap(v, n, path)
	default:
		panic("config: no decoding for " + v.Type().String())
	}
}

func (d *decoder) decodeSection(v reflect.Value, n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "is %s, but a section with keys is wanted", describe(n))
		return
	}
	fields := fieldsOf(v.Type())
	for _, e := range d.entries(n, path) {
		if d.stopped {
			return
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == e.key.Value })
		if i < 0 {
			d.unknownKey(e.key, path, fields)
			continue
		}
		d.decodeEntry(v.FieldByIndex(fields[i].Index), e, keyPath(path, fields[i].key))
	}
}

// decodeEntry decodes a key's value. What is then said of a section or a list
// as a whole is said of the line of its key.
func (d *decoder) decodeEntry(v reflect.Value, e entry, path string) {
	d.decode(v, e.value, path)
	if e.value.Kind != yaml.ScalarNode {
		d.source.marks[path] = mark{line: e.key.Line, column: e.key.Column}
	}
}

func (d *decoder) unknownKey(key *yaml.Node, path string, fields []field) {
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.key
	}
	hint := "; known here: " + strings.Join(known, ", ")
	if near := Nearest(key.Value, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	d.fault(key, keyPath(path, key.Value), "unknown key%s", hint)
}

func (d *decoder) decodeList(v reflect.Value, n *yaml.Node, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fault(n, path, "is %s, but a list is wanted", describe(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, len(n.Content)))
	for i, item := range n.Content {
		element := reflect.New(v.Type().Elem()).Elem()
		if element.Kind() == reflect.Struct {
			setDefaults(element)
		}
		d.decode(element, item, indexPath(path, i))
		v.Set(reflect.Append(v, element))
	}
}

func (d *decoder) decodeMap(v reflect.Value, n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "is %s, but a section with keys is wanted", describe(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range d.entries(n, path) {
		value := reflect.New(v.Type().Elem()).Elem()
		d.decodeEntry(value, e, keyPath(path, e.key.Value))
		v.SetMapIndex(reflect.ValueOf(e.key.Value), value)
	}
}
