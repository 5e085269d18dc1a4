package config

import (
	"slices"
	"strings"
)

// maxContextHeaders bounds what is looked for in each request.
const maxContextHeaders = 32

func (v *validator) contextHeaders(names []string, section string) {
	if len(names) > maxContextHeaders {
		v.fault(section, "has %d names; there may be %d", len(names), maxContextHeaders)
	}
	for i, name := range names {
		key := indexPath(section, i)
		if !v.headerName(name, key, v.show(key, name), false) {
			continue
		}
		if slices.ContainsFunc(names[:i], func(other string) bool { return strings.EqualFold(other, name) }) {
			v.fault(key, "%s stands in the list already", v.show(key, name))
		}
	}
}
