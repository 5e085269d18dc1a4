package openapi

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/rpcgate/rpcgate/config"
)

// schemas makes the schemas of one backend's types, as its JSON options have
// them.
type schemas struct {
	b       *builder
	backend string
	json    config.JSON
	comment func(protoreflect.FullName) string
}

// name is a field's name in JSON.
func (s *schemas) name(fd protoreflect.FieldDescriptor) string {
	if s.json.UseProtoNames {
		return fd.TextName()
	}
	return fd.JSONName()
}

// message is the schema of a message as a body shows it.
func (s *schemas) message(md protoreflect.MessageDescriptor) object {
	if known, ok := s.wellKnown(md); ok {
		return known
	}
	return s.refer(md, s.messageSchema)
}

// refer gives a reference to the component of a message or enum, which is made
// when it is first referred to.
func (s *schemas) refer(d protoreflect.Descriptor, describe func(protoreflect.Descriptor) object) object {
	id := componentID{s.backend, d.FullName()}
	c, ok := s.b.components[id]
	if !ok {
		c = &component{backend: s.backend, name: d.FullName(), key: plainKey(string(d.FullName()))}
		s.b.components[id] = c // before its fields, which may lead back here
		s.b.order = append(s.b.order, c)
		c.schema = describe(d)
		if !s.b.afford(c.schema) {
			c.schema = object{{"description", "The document has no room for this schema."}}
		}
	}
	return object{{"$ref", c}}
}

func (s *schemas) messageSchema(d protoreflect.Descriptor) object {
	md := d.(protoreflect.MessageDescriptor) //nolint:forcetypeassert // refer's callers see to it
	return s.objectOf(md, nil)
}

// objectOf is the schema of a message's fields, less those left out.
func (s *schemas) objectOf(md protoreflect.MessageDescriptor, without map[protoreflect.FieldNumber]bool) object {
	o := object{{"type", "object"}}
	text := s.comment(md.FullName())
	for i := range md.Oneofs().Len() {
		text = paragraphs(text, s.oneof(md.Oneofs().Get(i)))
	}
	o.setText("description", text)
	o.setTrue("deprecated", isDeprecated(md))
	properties := make(object, 0, md.Fields().Len())
	at := make(map[string]int, md.Fields().Len())
	var required array
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if without[fd.Number()] {
			continue
		}
		name := s.name(fd)
		if i, ok := at[name]; ok { // proto2 allows two fields of one JSON name
			properties[i].value = object{{"description", "Two fields have this name."}}
			continue
		}
		at[name] = len(properties)
		properties.set(name, s.field(fd))
		if fd.Cardinality() == protoreflect.Required {
			required = append(required, name)
		}
	}
	if len(properties) > 0 {
		o.set("properties", properties)
	}
	o.setArray("required", required)
	return o
}

// oneof says which fields exclude each other.
func (s *schemas) oneof(od protoreflect.OneofDescriptor) string {
	if od.IsSynthetic() {
		return ""
	}
	names := make([]string, od.Fields().Len())
	for i := range names {
		names[i] = "`" + s.name(od.Fields().Get(i)) + "`"
	}
	return paragraphs(fmt.Sprintf("At most one of %s (oneof `%s`).", strings.Join(names, ", "), od.Name()), s.comment(od.FullName()))
}

// field is the schema of a field, with what is said about it.
func (s *schemas) field(fd protoreflect.FieldDescriptor) object {
	o := s.fieldValue(fd)
	if s.nullWhenUnset(fd) {
		o = nullable(o)
	}
	o.setDescription(s.comment(fd.FullName()))
	o.setTrue("deprecated", isDeprecated(fd))
	return o
}

// nullWhenUnset tells whether an answer has null for the field when it is not
// set: with emit_defaults, all with presence are, but for oneofs' members.
func (s *schemas) nullWhenUnset(fd protoreflect.FieldDescriptor) bool {
	return s.json.EmitDefaults && fd.HasPresence() && fd.ContainingOneof() == nil && fd.Cardinality() != protoreflect.Required
}

// fieldValue is the schema of a field's value: a list, a map or one.
func (s *schemas) fieldValue(fd protoreflect.FieldDescriptor) object {
	switch {
	case fd.IsMap():
		o := object{{"type", "object"}, {"additionalProperties", s.one(fd.MapValue())}}
		if keys := mapKeys(fd.MapKey().Kind()); keys != nil {
			o.set("propertyNames", keys)
		}
		return o
	case fd.IsList():
		return object{{"type", "array"}, {"items", s.one(fd)}}
	default:
		return s.one(fd)
	}
}

// mapKeys is the schema of the names of a map's entries; nil: any text.
func mapKeys(k protoreflect.Kind) object {
	switch k {
	case protoreflect.StringKind:
		return nil
	case protoreflect.BoolKind:
		return object{{"enum", texts("true", "false")}}
	default:
		return object{{"pattern", integerPattern(k)}}
	}
}

// one is the schema of a single value of a field's type.
func (s *schemas) one(fd protoreflect.FieldDescriptor) object {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return s.message(fd.Message())
	case protoreflect.EnumKind:
		return s.enum(fd.Enum())
	default:
		return s.scalar(fd.Kind())
	}
}

func (s *schemas) scalar(k protoreflect.Kind) object {
	switch k {
	case protoreflect.BoolKind:
		return object{{"type", "boolean"}}
	case protoreflect.StringKind:
		return object{{"type", "string"}}
	case protoreflect.BytesKind:
		return object{{"type", "string"}, {"contentEncoding", "base64"}}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		number := object{{"type", "number"}, {"format", k.String()}}
		return object{{"oneOf", array{number, object{{"type", "string"}, {"enum", texts("NaN", "Infinity", "-Infinity")}}}}}
	default:
		return s.integer(k)
	}
}

// integer is the schema of an integer, which JSON has as a string where it has
// 64 bits, unless the backend's options say otherwise. Pages that try operations
// out make a value up for a pattern without an example, too large a one mostly.
func (s *schemas) integer(k protoreflect.Kind) object {
	format := "int32"
	switch k {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		format = "uint32"
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		format = "int64"
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		format = "uint64"
	}
	if strings.HasSuffix(format, "64") && !s.json.Int64AsNumbers {
		return object{{"type", "string"}, {"format", format}, {"pattern", integerPattern(k)}, {"examples", texts("0")}}
	}
	o := object{{"type", "integer"}, {"format", format}}
	if format[0] == 'u' {
		o.set("minimum", 0)
	}
	return o
}

func integerPattern(k protoreflect.Kind) string {
	switch k {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return "^[0-9]+$"
	default:
		return "^-?[0-9]+$"
	}
}

func (s *schemas) enum(ed protoreflect.EnumDescriptor) object {
	if ed.FullName() == "google.protobuf.NullValue" {
		return object{{"type", "null"}}
	}
	return s.refer(ed, s.enumSchema)
}

func (s *schemas) enumSchema(d protoreflect.Descriptor) object {
	ed := d.(protoreflect.EnumDescriptor) //nolint:forcetypeassert // refer's callers see to it
	values := ed.Values()
	var names, numbers array
	seen := make(map[protoreflect.EnumNumber]bool)
	var notes strings.Builder
	for i := range values.Len() {
		v := values.Get(i)
		names = append(names, string(v.Name()))
		if !seen[v.Number()] {
			numbers = append(numbers, int(v.Number()))
		}
		seen[v.Number()] = true
		switch text := s.comment(v.FullName()); {
		case s.json.EnumsAsNumbers:
			fmt.Fprintf(&notes, "- %d: `%s`. %s\n", v.Number(), v.Name(), oneLine(text))
		case text != "":
			fmt.Fprintf(&notes, "- `%s`: %s\n", v.Name(), oneLine(text))
		}
	}
	o := object{{"type", "string"}, {"enum", names}}
	if s.json.EnumsAsNumbers {
		o = object{{"type", "integer"}, {"format", "int32"}, {"enum", numbers}}
	}
	o.setText("description", paragraphs(s.comment(ed.FullName()), strings.TrimSpace(notes.String())))
	o.setTrue("deprecated", isDeprecated(ed))
	return o
}

// setDescription adds what is said of a value to what its type says.
func (o *object) setDescription(text string) {
	if text == "" {
		return
	}
	for i, m := range *o {
		if own, ok := m.value.(string); ok && m.key == "description" {
			changed := append(object(nil), *o...) // the schema of a type may be shared
			changed[i].value = paragraphs(text, own)
			*o = changed
			return
		}
	}
	o.set("description", text)
}

// nullable allows null beside what a schema allows.
func nullable(o object) object {
	for i, m := range o {
		if m.key != "type" {
			continue
		}
		t, ok := m.value.(string)
		if !ok {
			return o // has it already
		}
		changed := append(object(nil), o...)
		changed[i].value = texts(t, "null")
		return changed
	}
	if len(o) == 0 || o.get("$ref") == nil && o.get("oneOf") == nil {
		return o // allows anything
	}
	return object{{"anyOf", array{o, object{{"type", "null"}}}}}
}

// isDeprecated tells whether a descriptor's options say so.
func isDeprecated(d protoreflect.Descriptor) bool {
	switch o := d.Options().(type) {
	case *descriptorpb.MessageOptions:
		return o.GetDeprecated()
	case *descriptorpb.FieldOptions:
		return o.GetDeprecated()
	case *descriptorpb.EnumOptions:
		return o.GetDeprecated()
	case *descriptorpb.MethodOptions:
		return o.GetDeprecated()
	case *descriptorpb.ServiceOptions:
		return o.GetDeprecated()
	default:
		return false
	}
}
