package config

import "strings"

// maxBackendName bounds a backend's name, in bytes, as DNS does its labels.
const maxBackendName = 63

// isBackendName tells whether a text can name a backend: it stands in metrics,
// logs, and key paths.
func isBackendName(name string) bool {
	if name == "" || len(name) > maxBackendName || !isAlphanumeric(rune(name[0])) {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return !isAlphanumeric(r) && r != '-' && r != '_' && r != '.'
	}) < 0
}

// isFullName tells whether a text is a name of protobuf's: identifiers with dots between.
func isFullName(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if !isIdentifier(part) {
			return false
		}
	}
	return true
}

func isIdentifier(name string) bool {
	for i, r := range name {
		digit := '0' <= r && r <= '9'
		if r != '_' && !isAlphanumeric(r) || i == 0 && digit {
			return false
		}
	}
	return name != ""
}

// methodName says what is wrong with the name of a method; empty: nothing.
func methodName(name string) string {
	service, method, ok := strings.Cut(name, "/")
	switch {
	case name == "":
		return "is empty; write package.Service/Method"
	case strings.HasPrefix(name, "/"):
		return "begins with a slash; write package.Service/Method"
	case !ok:
		return "has no slash before the method; write package.Service/Method"
	case !isFullName(service) || !isIdentifier(method):
		return "is not package.Service/Method"
	}
	return ""
}

// serviceOf gives the service of a method's name.
func serviceOf(method string) string {
	service, _, _ := strings.Cut(method, "/")
	return service
}

// isHTTPToken tells whether a text is a token of RFC 9110, section 5.6.2, as methods are.
func isHTTPToken(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return !isAlphanumeric(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

// isMetadataKey tells whether a text can be the key of gRPC metadata as it stands on the wire.
func isMetadataKey(key string) bool {
	return key != "" && strings.IndexFunc(key, func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < '0' || '9' < r) && r != '-' && r != '_' && r != '.'
	}) < 0
}
