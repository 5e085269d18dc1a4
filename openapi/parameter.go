package openapi

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A fieldPath is a field inside a message inside a message.
type fieldPath []protoreflect.FieldDescriptor

func (p fieldPath) leaf() protoreflect.FieldDescriptor { return p[len(p)-1] }

// within tells whether p is the field, or one inside it.
func (p fieldPath) within(other fieldPath) bool {
	if len(other) == 0 || len(other) > len(p) {
		return false
	}
	for i, fd := range other {
		if p[i].Number() != fd.Number() {
			return false
		}
	}
	return true
}

// findField finds the field of a dotted path, by proto names or JSON names, as
// transcode does; nil: there is none.
func findField(md protoreflect.MessageDescriptor, path string) fieldPath {
	var found fieldPath
	for name := range strings.SplitSeq(path, ".") {
		if md == nil {
			return nil
		}
		fd := md.Fields().ByTextName(name)
		if fd == nil {
			fd = md.Fields().ByJSONName(name)
		}
		if fd == nil {
			return nil
		}
		found = append(found, fd)
		md = nil
		if !fd.IsList() && !fd.IsMap() {
			md = fd.Message()
		}
	}
	return found
}

// A textField is a field that a query or a form can set.
type textField struct {
	name   string
	path   fieldPath
	schema object
	asJSON bool // the text is JSON
}

// textFields gives the fields of a message that can be written as text, but for
// those that are bound. left says how many there are beyond the limit.
func (s *schemas) textFields(md protoreflect.MessageDescriptor, bound []fieldPath) (fields []textField, left int) {
	c := textCollector{s: s, bound: bound}
	c.collect(md, "", nil)
	return c.fields, c.left
}

type textCollector struct {
	s      *schemas
	bound  []fieldPath
	fields []textField
	left   int
}

func (c *textCollector) collect(md protoreflect.MessageDescriptor, prefix string, outer fieldPath) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		path := append(slices.Clip(outer), fd)
		if slices.ContainsFunc(c.bound, path.within) {
			continue
		}
		name := prefix + c.s.nameInText(fd)
		if schema, asJSON, ok := c.s.fieldInText(fd); ok {
			// Setting the whole would replace the part that is bound.
			if slices.ContainsFunc(c.bound, func(b fieldPath) bool { return b.within(path) }) {
				continue
			}
			if len(c.fields) == maxParameters {
				c.left++
				continue
			}
			c.fields = append(c.fields, textField{name, path, schema, asJSON})
			continue
		}
		inner := fd.Message()
		if inner == nil || fd.IsList() || fd.IsMap() || fd.Kind() == protoreflect.GroupKind || isWellKnown(inner) ||
			len(path) == maxNesting || inner.FullName() == path[0].ContainingMessage().FullName() ||
			slices.ContainsFunc(outer, func(o protoreflect.FieldDescriptor) bool { return o.Message().FullName() == inner.FullName() }) {
			continue
		}
		c.collect(inner, name+".", path)
	}
}

// isWellKnown tells the types that the protobuf library brings, which have no
// fields to be set one by one.
func isWellKnown(md protoreflect.MessageDescriptor) bool {
	return md.ParentFile().Package() == "google.protobuf"
}

// nameInText is a field's name in queries and forms, where proto names come
// before JSON names.
func (s *schemas) nameInText(fd protoreflect.FieldDescriptor) string {
	name := s.name(fd)
	if other := fd.ContainingMessage().Fields().ByTextName(name); other != nil && other.Number() != fd.Number() {
		return fd.TextName()
	}
	return name
}

// fieldInText is inText for a list or map, too.
func (s *schemas) fieldInText(fd protoreflect.FieldDescriptor) (schema object, asJSON, ok bool) {
	if fd.IsMap() {
		value, asJSON, ok := s.inText(fd.MapValue())
		if !ok || asJSON {
			return nil, false, false
		}
		return object{{"type", "object"}, {"additionalProperties", value}}, false, true
	}
	schema, asJSON, ok = s.inText(fd)
	if !ok || !fd.IsList() {
		return schema, asJSON, ok
	}
	if asJSON {
		return nil, false, false
	}
	return object{{"type", "array"}, {"items", schema}}, false, true
}

// queryParameters describes the query of a request whose bound fields are set
// elsewhere. note says what has found no room.
func (s *schemas) queryParameters(md protoreflect.MessageDescriptor, bound []fieldPath) (parameters array, note string) {
	fields, left := s.textFields(md, bound)
	for _, f := range fields {
		fd := f.path.leaf()
		o := object{{"name", f.name}, {"in", "query"}}
		o.setText("description", s.comment(fd.FullName()))
		o.setTrue("required", len(f.path) == 1 && fd.Cardinality() == protoreflect.Required)
		o.setTrue("deprecated", isDeprecated(fd))
		switch {
		case f.asJSON:
			o.set("content", object{{"application/json", object{{"schema", f.schema}}}})
		case fd.IsMap():
			o.set("style", "deepObject")
			o.set("explode", true)
			o.set("schema", f.schema)
		default:
			o.set("schema", f.schema)
		}
		parameters = append(parameters, o)
	}
	if left > 0 {
		note = fmt.Sprintf("%d more fields of `%s` can be set by the query.", left, md.FullName())
	}
	return parameters, note
}

// pathParameters describes the parameters of a path; names are theirs in the
// document.
func (s *schemas) pathParameters(md protoreflect.MessageDescriptor, p path, names []string) array {
	var parameters array
	for i, part := range p.parts {
		if !part.wildcard {
			continue
		}
		o := object{{"name", names[i]}, {"in", "path"}}
		schema := object{{"type", "string"}}
		var text string
		if field := findField(md, part.variable); part.variable != "" && field != nil {
			fd := field.leaf()
			text = s.comment(fd.FullName())
			if part.whole && !part.deep {
				if of, asJSON, ok := s.fieldInText(fd); ok && !asJSON {
					schema = of
				}
			}
			if names[i] != part.variable && part.whole {
				text = paragraphs(text, fmt.Sprintf("The request's `%s`.", part.variable))
			}
			o.setText("description", paragraphs(text, part.note))
			o.set("required", true)
			o.setTrue("deprecated", isDeprecated(fd))
		} else {
			o.setText("description", paragraphs("Any text: it is not looked at.", part.note))
			o.set("required", true)
		}
		o.set("schema", schema)
		parameters = append(parameters, o)
	}
	return parameters
}
