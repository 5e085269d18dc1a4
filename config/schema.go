package config

import (
	"encoding/json"
	"reflect"

	"github.com/invopop/jsonschema"
)

// The patterns of texts in the schema. Each has a way out for references to
// environment variables.
const (
	referencePattern = `\$\{`
	durationPattern  = `^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$`
	sizePattern      = `^[0-9]+(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?$`
)

// Schema gives the JSON schema of a configuration file, for editors. It is
// generated from the types: descriptions from their comments, defaults, enums
// and bounds from their tags.
func Schema() ([]byte, error) {
	docs, err := comments()
	if err != nil {
		return nil, err
	}
	r := jsonschema.Reflector{
		FieldNameTag:               "yaml",
		Anonymous:                  true,
		RequiredFromJSONSchemaTags: true,
		LookupComment: func(t reflect.Type, name string) string {
			if name == "" {
				return docs[t.Name()]
			}
			return docs[t.Name()+"."+name]
		},
		Mapper: mapScalar,
	}
	root := r.Reflect(new(Config))
	root.Title = "rpcgate configuration"
	refine(root.Definitions, reflect.TypeFor[Config](), map[reflect.Type]bool{})
	return json.MarshalIndent(root, "", "  ")
}

// mapScalar gives the schemas of the types that stand in the file otherwise than in Go.
func mapScalar(t reflect.Type) *jsonschema.Schema {
	switch t {
	case durationType:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: durationPattern}, {Const: 0}, reference()}}
	case sizeType:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: sizePattern}, {Type: "integer", Minimum: "0"}, reference()}}
	case secretType:
		return &jsonschema.Schema{Type: "string"}
	default:
		return nil
	}
}

func reference() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: referencePattern}
}

// refine adds what the tags say to the definitions of a section and of those in it.
func refine(definitions jsonschema.Definitions, section reflect.Type, done map[reflect.Type]bool) {
	for section.Kind() == reflect.Pointer || section.Kind() == reflect.Slice {
		section = section.Elem()
	}
	if section.Kind() != reflect.Struct || done[section] {
		return
	}
	done[section] = true
	definition := definitions[section.Name()]
	for _, f := range fieldsOf(section) {
		if property, ok := definition.Properties.Get(f.key); ok && isScalar(f.Type) {
			refineScalar(property, f)
		} else if ok && f.Type.Kind() == reflect.Slice {
			refineList(property, f)
		}
		refine(definitions, f.Type, done)
	}
}

// refineList adds the default and the enum of a list of texts.
func refineList(s *jsonschema.Schema, f field) {
	if list := f.list(); list != nil {
		s.Default = list
	}
	if enum := f.enum(); enum != nil {
		s.Items = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{enumSchema(enum), reference()}}
	}
}

func enumSchema(enum []string) *jsonschema.Schema {
	values := make([]any, len(enum))
	for i, text := range enum {
		values[i] = text
	}
	return &jsonschema.Schema{Enum: values}
}

func refineScalar(s *jsonschema.Schema, f field) {
	if text, ok := f.Tag.Lookup("default"); ok {
		s.Default = schemaValue(f.Type, text)
	}
	if f.Type == durationType || f.Type == sizeType {
		return
	}
	switch f.Type.Kind() {
	case reflect.String:
		if enum := f.enum(); enum != nil {
			s.Type, s.AnyOf = "", []*jsonschema.Schema{enumSchema(enum), reference()}
		}
	case reflect.Bool:
		s.Type, s.AnyOf = "", []*jsonschema.Schema{{Type: "boolean"}, reference()}
	default:
		number := &jsonschema.Schema{Type: s.Type, Minimum: "0"}
		if text, ok := f.Tag.Lookup("min"); ok {
			number.Minimum = json.Number(text)
		}
		if text, ok := f.Tag.Lookup("max"); ok {
			number.Maximum = json.Number(text)
		}
		s.Type, s.AnyOf = "", []*jsonschema.Schema{number, reference()}
	}
}

// schemaValue gives a default as it stands in a file: durations and sizes stay texts.
func schemaValue(t reflect.Type, text string) any {
	if t == durationType || t == sizeType || t.Kind() == reflect.String {
		return text
	}
	return json.RawMessage(text)
}
