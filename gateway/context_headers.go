package gateway

import (
	"net/http"
	"strings"
)

// contextHeaders are the headers that go on under their own name by any
// protocol: in canonical form, with the metadata key. nil: none but the trace
// context's.
type contextHeaders map[string]string

func newContextHeaders(names []string) contextHeaders {
	if len(names) == 0 {
		return nil
	}
	c := make(contextHeaders, len(names))
	for _, name := range names {
		c[http.CanonicalHeaderKey(name)] = strings.ToLower(name)
	}
	return c
}

// key maps a header, in canonical form, to the key under which a JSON caller's
// goes on without a rule; "": it does not.
func (c contextHeaders) key(header string) string {
	if key, ok := c[header]; ok {
		return key
	}
	if header == "Baggage" { // of the W3C's trace context, but unknown to grpc-gateway
		return "baggage"
	}
	return permanentKey(header)
}
