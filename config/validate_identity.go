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

// maxNodeName is how long the name of a gateway may be, in bytes.
const maxNodeName = 64

// nodeFault says what is wrong with a gateway's name; empty: nothing.
func nodeFault(name string) string {
	if len(name) > maxNodeName {
		return "is longer than 64 characters"
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return "has a character other than letters, digits, dashes, dots and underscores"
		}
	}
	return ""
}
