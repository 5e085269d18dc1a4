package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

const referenceHead = `# Configuration

<!-- Generated from the types in config/ by: go test ./config -run TestReference -update. Do not edit. -->

One YAML file, given with ''-c''. [etc/gateway.yaml](../etc/gateway.yaml) shows all of it, with comments.
''gateway check -c FILE'' finds everything that is wrong with a file at once, by line; ''gateway check --schema'' prints the
JSON schema for editors.

- **Strict.** Unknown keys, keys given twice, and values of the wrong type are refused. A key left out has its default.
- **Durations** have a unit: ''500ms'', ''2s'', ''1h30m''. **Sizes** may have one: ''512'', ''64KiB'', ''4MiB'', ''1GB''.
- **Environment.** ''${NAME}'' in a value stands for an environment variable, which must be set. ''${NAME:-default}'' has a
  default for when it is unset or empty. ''$$'' is a plain ''$''. What a variable holds is one value: it cannot add keys or
  list items. Inside of ''[…]'' and ''{…}'' YAML wants quotes around it.
- **Secrets** may lie in files: ''password_file'' in place of ''password''. One line end at the file's end is taken off.
- **Paths** are relative to the configuration file.
- **Anchors, aliases and merge keys** (''&name'', ''*name'', ''<<: *name'') work.
`

// Reference gives the reference of all keys as Markdown: docs/config.md. It is
// generated from the types, as the schema is.
func Reference() ([]byte, error) {
	docs, err := comments()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(referenceHead, "''", "`"))
	for _, s := range sections(reflect.TypeFor[Config]()) {
		name := s.section.Name()
		fmt.Fprintf(&b, "\n## %s\n\n", name)
		if len(s.paths) > 0 {
			fmt.Fprintf(&b, "At `%s`. ", strings.Join(s.paths, "`, `"))
		}
		fmt.Fprintf(&b, "%s\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n", cell(docs[name]))
		for _, f := range fieldsOf(s.section) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.key, kind(f), absent(f), cell(docs[name+"."+f.Name]))
		}
	}
	return []byte(b.String()), nil
}

// placed is a type of section, and the places where it may stand.
type placed struct {
	section reflect.Type
	paths   []string
}

// sections lists the types of sections from a root on, in the order of the
// file. A section in itself is told of once.
func sections(root reflect.Type) []*placed {
	var all []*placed
	var visit func(t reflect.Type, path string, around []reflect.Type)
	visit = func(t reflect.Type, path string, around []reflect.Type) {
		i := slices.IndexFunc(all, func(p *placed) bool { return p.section == t })
		if i < 0 {
			i = len(all)
			all = append(all, &placed{section: t})
		}
		if path != "" {
			all[i].paths = append(all[i].paths, path)
		}
		if slices.Contains(around, t) {
			return
		}
		for _, f := range fieldsOf(t) {
			inner, suffix := f.Type, ""
			if inner.Kind() == reflect.Slice {
				inner, suffix = inner.Elem(), "[]"
			}
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				visit(inner, keyPath(path, f.key)+suffix, append(around, t))
			}
		}
	}
	visit(root, "", nil)
	return all
}

// kind says what a key's value is, with its bounds.
func kind(f field) string {
	t, prefix := f.Type, ""
	switch t.Kind() {
	case reflect.Slice:
		t, prefix = t.Elem(), "list of "
	case reflect.Map:
		t, prefix = t.Elem(), "map to "
	case reflect.Pointer:
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		return prefix + "[" + t.Name() + "](#" + strings.ToLower(t.Name()) + ")"
	}
	if enum := f.enum(); enum != nil {
		enum = slices.DeleteFunc(enum, func(s string) bool { return s == "" })
		return prefix + "`" + strings.Join(enum, "`, `") + "`"
	}
	return prefix + scalarKind(t, f) + bounds(f)
}

func scalarKind(t reflect.Type, f field) string {
	switch {
	case t == durationType:
		return "duration"
	case t == sizeType:
		return "size"
	case t == secretType:
		return "secret"
	case f.Tag.Get("path") != "":
		return "path"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "number"
	default:
		return "whole number"
	}
}

func bounds(f field) string {
	least, greatest := f.Tag.Get("min"), f.Tag.Get("max")
	switch {
	case least != "" && greatest != "":
		return ", " + least + " to " + greatest
	case least != "":
		return ", from " + least
	case greatest != "":
		return ", up to " + greatest
	default:
		return ""
	}
}

// absent says what an absent key means.
func absent(f field) string {
	if f.Tag.Get("jsonschema") == "required" {
		return "required"
	}
	if list := f.list(); list != nil {
		return "`[" + strings.Join(list, ", ") + "]`"
	}
	if text := f.Tag.Get("default"); text != "" {
		return "`" + text + "`"
	}
	return ""
}

// cell makes a text fit into a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("\n", " ", "|", `\|`).Replace(text)
}
