package config

import (
	"net/url"
	"slices"
	"strings"
)

// http checks what the HTTP port speaks, and to whom.
func (v *validator) http(h *HTTP) {
	if len(h.Protocols) == 0 {
		v.missing("http.protocols", "is empty: nothing would be spoken on the port; http.address: %s shuts it", Off)
	}
	v.unique(h.Protocols, "http.protocols")
	v.unique(h.Compression.Encodings, "http.compression.encodings")
	v.cors(&h.CORS, "http.cors")
	v.origins(h.Streams.AllowedOrigins, "http.streams.allowed_origins")
}

func (v *validator) cors(c *CORS, section string) {
	v.origins(c.AllowedOrigins, section+".allowed_origins")
	if c.AllowCredentials && slices.ContainsFunc(c.AllowedOrigins, isOpenOrigin) {
		v.fault(section+".allow_credentials", "is not for pages of any origin: they could act for whoever visits them; name the origins")
	}
	if len(c.AllowedMethods) == 0 {
		v.missing(section+".allowed_methods", "is empty; leave the key out for its default")
	}
	for i, method := range c.AllowedMethods {
		if key := indexPath(section+".allowed_methods", i); !isHTTPToken(method) || method == "*" {
			v.fault(key, "%s is not an HTTP method", v.show(key, method))
		}
	}
	v.unique(c.AllowedMethods, section+".allowed_methods")
	for i, name := range c.AllowedHeaders {
		if key := indexPath(section+".allowed_headers", i); name != "*" && !isHeaderName(name) {
			v.fault(key, "%s is neither the name of a header nor *", v.show(key, name))
		}
	}
	for i, name := range c.ExposedHeaders {
		switch key := indexPath(section+".exposed_headers", i); {
		case name == "*" && c.AllowCredentials:
			v.fault(key, "* means nothing to browsers beside allow_credentials; name the headers")
		case name != "*" && !isHeaderName(name):
			v.fault(key, "%s is neither the name of a header nor *", v.show(key, name))
		}
	}
}

func (v *validator) origins(origins []string, section string) {
	for i, origin := range origins {
		key := indexPath(section, i)
		if why := originFault(origin); why != "" {
			v.fault(key, "%s %s", v.showAddress(key, origin), why)
		}
	}
	v.unique(origins, section)
}

// unique notes what stands in a list twice.
func (v *validator) unique(list []string, section string) {
	for i, text := range list {
		if key := indexPath(section, i); slices.Contains(list[:i], text) {
			v.fault(key, "%s stands in the list already", v.showAddress(key, text))
		}
	}
}

// originFault says what is wrong with the origin of web pages, or with a
// pattern of such; empty: nothing. Browsers write an origin as
// scheme://host[:port] (RFC 6454, section 6.2), in lower case and without the
// scheme's own port.
func originFault(origin string) string {
	switch {
	case origin == "*":
		return ""
	case origin == "":
		return "is empty; write an origin like https://app.example.com"
	case origin == "null":
		return "is the origin of any page that hides its own"
	case strings.Count(origin, "*") > 1:
		return "has more than one *"
	}
	// A `*` may stand for all of a host, or a port.
	plain := strings.Replace(origin, ":*", ":1", 1)
	plain = strings.Replace(plain, "*", "x", 1)
	u, err := url.Parse(plain)
	switch {
	case err != nil || u.Scheme == "" || u.Host == "" || u.Opaque != "" || u.Hostname() == "":
		return "is not an origin; write one like https://app.example.com"
	case u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(plain, "#"):
		return "has more than scheme, host and port, which are all that browsers send"
	case u.Scheme == "http" && u.Port() == "80", u.Scheme == "https" && u.Port() == "443":
		return "has its scheme's own port, which browsers leave out"
	}
	return ""
}

// isOpenOrigin tells whether a pattern leaves the whole host open.
func isOpenOrigin(origin string) bool {
	_, host, _ := strings.Cut(origin, "://")
	return origin == "*" || host == "*"
}

// isLooseOrigin tells whether a host's registered name may end in whatever a
// `*` stands for, so that anybody can have such a host.
func isLooseOrigin(origin string) bool {
	_, host, _ := strings.Cut(origin, "://")
	before, after, star := strings.Cut(host, "*")
	return star && !strings.Contains(before, ":") && !strings.Contains(after, ".")
}
