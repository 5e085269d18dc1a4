package config

import "reflect"

// FixedChanges lists the top-level keys, but for backends and routes, that next
// has otherwise than c: what only a start takes in.
func (c *Config) FixedChanges(next *Config) []string {
	was, is := reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem()
	var changed []string
	for _, f := range fieldsOf(was.Type()) {
		if f.key == "backends" || f.key == "routes" {
			continue
		}
		if !reflect.DeepEqual(was.FieldByIndex(f.Index).Interface(), is.FieldByIndex(f.Index).Interface()) {
			changed = append(changed, f.key)
		}
	}
	return changed
}

// Same tells whether a backend's configuration is that of another.
func (b Backend) Same(other Backend) bool { return reflect.DeepEqual(b, other) }
