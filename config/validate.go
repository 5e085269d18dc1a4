package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// validator collects what is wrong with, or odd about, a configuration's values.
type validator struct {
	source *source         // nil: built in code
	broken map[string]bool // key paths that the decoder found fault with: their values mean nothing
	faults Faults
}

// fault notes what is wrong at a key, unless its value could not be read at all.
func (v *validator) fault(path, format string, args ...any) {
	for p := path; p != ""; p = parentPath(p) {
		if v.broken[p] {
			return
		}
	}
	f := Fault{Key: path, Message: fmt.Sprintf(format, args...)}
	if v.source != nil {
		m := v.source.at(path)
		f.File, f.Line, f.Column = v.source.file, m.line, m.column
	}
	v.faults = append(v.faults, f)
}

// FaultAt makes a fault of what another package found wrong with the value at
// key, with its place in the file where the configuration was loaded from one.
func (c *Config) FaultAt(key, message string) Fault {
	v := &validator{source: c.source}
	v.fault(key, "%s", message)
	return v.faults[0]
}

// missing notes that a section lacks something, unless a key of it could not be
// read: that one may have been what is missing.
func (v *validator) missing(section, format string, args ...any) {
	for p := range v.broken {
		if parentPath(p) == section {
			return
		}
	}
	v.fault(section, format, args...)
}

// show gives a value for a message: as the file has it where environment
// variables are in it.
func (v *validator) show(path, value string) string { return quote(v.shown(path, value)) }

// showAddress is show for what should be an address: whoever writes a URL
// there, or the end of one, may have put a password into it.
func (v *validator) showAddress(path, value string) string {
	return quote(withoutUserinfo(v.shown(path, value)))
}

func (v *validator) shown(path, value string) string {
	if v.source != nil {
		if m, ok := v.source.marks[path]; ok && m.shown != "" {
			return m.shown
		}
	}
	return value
}

// config checks the whole: first what the tags say, then what each section means.
func (v *validator) config(c *Config) {
	v.tags(reflect.ValueOf(c).Elem())
	v.listeners(c)
	v.http(&c.HTTP)
	v.redis(c)
	v.etcd(c)
	v.consul(c)
	v.kubernetes(&c.Kubernetes)
	v.auth(c)
	v.register(c)
	v.contextHeaders(c.ContextHeaders, "context_headers")
	v.overload(&c.Overload, "overload")
	v.usage(&c.Usage)
	v.metrics(&c.Metrics)
	v.backends(c)
	v.routes(c)
	v.limiting(c)
}

// tags checks each value against its enum, min and max.
func (v *validator) tags(section reflect.Value) {
	walk(section, "", func(f field, value reflect.Value, path string) {
		if enum := f.enum(); enum != nil && !slices.Contains(enum, value.String()) {
			v.notInEnum(path, value.String(), enum)
		}
		v.bounds(f, value, path)
	})
}

func (v *validator) notInEnum(path, value string, enum []string) {
	known := slices.DeleteFunc(slices.Clone(enum), func(s string) bool { return s == "" })
	list := strings.Join(known, ", ")
	if value == "" {
		v.missing(path, "is empty; it is one of %s", list)
		return
	}
	hint := ""
	if near := Nearest(value, known); near != "" && v.show(path, value) == quote(value) {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	v.fault(path, "%s is none of %s%s", v.show(path, value), list, hint)
}

// bounds checks a number, a duration or a size against its least and greatest value.
func (v *validator) bounds(f field, value reflect.Value, path string) {
	if !value.CanInt() && !value.CanUint() && !value.CanFloat() {
		return
	}
	least, hasLeast := f.Tag.Lookup("min")
	if !hasLeast {
		least = "0"
	}
	if below(value, bound(value.Type(), least)) {
		v.fault(path, "is too small: the least is %s", least)
	}
	if greatest, ok := f.Tag.Lookup("max"); ok && below(bound(value.Type(), greatest), value) {
		v.fault(path, "is too large: the most is %s", greatest)
	}
	if value.CanFloat() && math.IsNaN(value.Float()) {
		v.fault(path, "is not a number")
	}
}

// bound reads a bound from a tag. A test reads them all.
func bound(t reflect.Type, text string) reflect.Value {
	value, err := parseScalar(t, text)
	if err != nil {
		panic(fmt.Sprintf("config: bound %q of a %s: %v", text, t, err))
	}
	return value
}

func below(a, b reflect.Value) bool {
	switch {
	case a.CanInt():
		return a.Int() < b.Int()
	case a.CanUint():
		return a.Uint() < b.Uint()
	default:
		return a.Float() < b.Float()
	}
}

// walk visits each scalar value of a section and of all that lies in it, list
// elements and map values too, with the field that it belongs to.
func walk(section reflect.Value, path string, visit func(f field, value reflect.Value, path string)) {
	for _, f := range fieldsOf(section.Type()) {
		walkValue(f, section.FieldByIndex(f.Index), keyPath(path, f.key), visit)
	}
}

func walkValue(f field, value reflect.Value, path string, visit func(field, reflect.Value, string)) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			walkValue(f, value.Elem(), path, visit)
		}
	case reflect.Struct:
		walk(value, path, visit)
	case reflect.Slice:
		for i := range value.Len() {
			walkValue(f, value.Index(i), indexPath(path, i), visit)
		}
	case reflect.Map:
		keys := value.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			walkValue(f, value.MapIndex(key), keyPath(path, key.String()), visit)
		}
	default:
		visit(f, value, path)
	}
}
