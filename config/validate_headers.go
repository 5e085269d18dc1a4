package config

import (
	"maps"
	"slices"
	"strings"
)

func (v *validator) headers(h *Headers, section string) {
	v.headerRules(&h.Request, section+".request")
	v.headerRules(&h.Response, section+".response")
}

func (v *validator) headerRules(r *HeaderRules, section string) {
	for i, name := range r.Allow {
		key := indexPath(section+".allow", i)
		v.headerName(name, key, v.show(key, name), true)
	}
	for i, name := range r.Deny {
		key := indexPath(section+".deny", i)
		v.headerName(name, key, v.show(key, name), true)
	}
	from := map[string]bool{}
	for _, name := range v.headerKeys(section+".rename", slices.Sorted(maps.Keys(r.Rename))) {
		from[strings.ToLower(name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(r.Rename)) {
		key, to := keyPath(section+".rename", name), r.Rename[name]
		switch {
		case !v.headerName(to, key, v.show(key, to), false):
		case from[strings.ToLower(to)]:
			v.fault(key, "%s is renamed itself; which is to come first would be chance", v.show(key, to))
		case isBinary(name) != isBinary(to):
			v.fault(key, "names that end in -bin hold bytes, others text: one cannot become the other")
		}
	}
	for _, name := range v.headerKeys(section+".set", slices.Sorted(maps.Keys(r.Set))) {
		key := keyPath(section+".set", name)
		if isBinary(name) {
			v.fault(key, "names that end in -bin hold bytes, and cannot be set")
		}
		if text := r.Set[name]; strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || '~' < c }) {
			v.fault(key, "has characters other than printable ASCII")
		} else if text != strings.TrimSpace(text) {
			v.fault(key, "begins or ends with a blank, which would be lost on the way")
		}
	}
}

// headerKeys checks the names that a map has as its keys, and returns those that are right.
func (v *validator) headerKeys(section string, names []string) []string {
	seen := map[string]string{}
	var good []string
	for _, name := range names {
		key, lower := keyPath(section, name), strings.ToLower(name)
		if first, ok := seen[lower]; ok {
			v.fault(key, "is the same name as %s", quote(first))
			continue
		}
		seen[lower] = name
		if v.headerName(name, key, quote(name), false) {
			good = append(good, name)
		}
	}
	return good
}

// headerName checks a name that a rule is for; with pattern it may end in `*`.
func (v *validator) headerName(name, key, shown string, pattern bool) bool {
	plain := name
	if pattern {
		plain = strings.TrimSuffix(name, "*")
	}
	lower := strings.ToLower(plain)
	switch {
	case pattern && name == "*":
		return true
	case !pattern && strings.HasSuffix(name, "*"):
		v.fault(key, "%s has a *, which only allow and deny take", shown)
	case strings.Contains(plain, "*"):
		v.fault(key, "%s has a * before its end", shown)
	case strings.HasPrefix(plain, ":"):
		v.fault(key, "%s is HTTP/2's own, and not for rules", shown)
	case !isHeaderName(plain):
		v.fault(key, "%s is not the name of a header: letters, digits, dashes, dots and underscores", shown)
	case ReservedHeader(lower):
		v.fault(key, "%s is not for rules: credentials, and what the gateway, gRPC and HTTP themselves say, are not", shown)
	default:
		return true
	}
	return false
}

func isBinary(name string) bool { return strings.HasSuffix(strings.ToLower(name), "-bin") }

// isHeaderName tells whether a text can name an HTTP header and, in lower case, gRPC metadata.
func isHeaderName(name string) bool { return isMetadataKey(strings.ToLower(name)) }
