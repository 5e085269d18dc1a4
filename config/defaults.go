package config

import (
	"fmt"
	"reflect"
)

// Defaults is the configuration of an empty file: every value its default, no
// backends, no routes.
func Defaults() *Config {
	c := new(Config)
	setDefaults(reflect.ValueOf(c).Elem())
	return c
}

// DefaultBackend is a backend with every value its default. Where it is and
// what describes it remains to be said.
func DefaultBackend(name string) Backend {
	b := Backend{}
	setDefaults(reflect.ValueOf(&b).Elem())
	b.Name = name
	return b
}

// DefaultFanOut is that of a route with to: all that says no more.
func DefaultFanOut() FanOut {
	f := FanOut{}
	setDefaults(reflect.ValueOf(&f).Elem())
	return f
}

// setDefaults sets the defaults of a section and of the sections in it. What is
// optional (pointers, list elements) gets its own when it is made.
func setDefaults(section reflect.Value) {
	for _, f := range fieldsOf(section.Type()) {
		v := section.FieldByIndex(f.Index)
		if f.Type.Kind() == reflect.Struct {
			setDefaults(v)
			continue
		}
		if list := f.list(); list != nil {
			v.Set(reflect.ValueOf(list))
			continue
		}
		text, ok := f.Tag.Lookup("default")
		if !ok {
			continue
		}
		d, err := parseScalar(f.Type, text)
		if err != nil {
			panic(fmt.Sprintf("config: default of %s.%s: %v", section.Type(), f.Name, err))
		}
		v.Set(d)
	}
}
