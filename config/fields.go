package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
	secretType   = reflect.TypeFor[Secret]()
)

// field is one key of a section. Its tags say what holds for it:
//
//	yaml     its key
//	default  its default, as one would write it in the file; of a list, with commas between
//	enum     the texts that it may have, with commas between
//	min, max the bounds of a number, a duration or a size; min is 0 where it is not given
//	path     "file": a path that [Load] takes relative to the configuration file
//
// and jsonschema:"required" stands where a section means nothing without the key.
type field struct {
	reflect.StructField
	key string
}

// fieldsOf lists the keys of a section, in the order of the type.
func fieldsOf(section reflect.Type) []field {
	fields := make([]field, 0, section.NumField())
	for sf := range section.Fields() {
		key, _, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if !sf.IsExported() || key == "-" || key == "" {
			continue
		}
		fields = append(fields, field{StructField: sf, key: key})
	}
	return fields
}

// enum lists the texts that the field may have; nil: any.
func (f field) enum() []string {
	tag, ok := f.Tag.Lookup("enum")
	if !ok {
		return nil
	}
	return strings.Split(tag, ",")
}

// list gives the default of a list of texts; nil: none.
func (f field) list() []string {
	tag, ok := f.Tag.Lookup("default")
	if !ok || f.Type.Kind() != reflect.Slice {
		return nil
	}
	return strings.Split(tag, ",")
}

// isScalar tells whether a type's values are single texts in the file.
func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint32, reflect.Float64:
		return true
	default:
		return false
	}
}

// keyPath appends a key to a path, quoted where it would be hard to read.
func keyPath(path, key string) string {
	plain := key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	switch {
	case !plain:
		return path + "[" + quote(key) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

func indexPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// parentPath takes the last step off a path.
func parentPath(path string) string {
	if strings.HasSuffix(path, `"]`) {
		// The quoted key may hold anything, but no bare quote.
		if i := strings.LastIndex(path, `["`); i >= 0 {
			return path[:i]
		}
	}
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// maxQuoted bounds how much of a value a message repeats, in bytes.
const maxQuoted = 80

// quote makes a text fit for a message: one line, bounded, a URL without its userinfo.
func quote(text string) string {
	if strings.Contains(text, "://") {
		text = withoutUserinfo(text)
	}
	if len(text) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(text[:maxQuoted], "") + "…")
	}
	return strconv.Quote(text)
}
