package config

import "strings"

// Headers are the rules for what travels beside the messages. Names are the
// same whatever the protocol: those of HTTP headers and of gRPC metadata,
// without regard to case.
//
// A route's rules come after its backend's, and win. Out of their reach are
// credentials, hop-by-hop headers, and what the gateway, gRPC and HTTP
// themselves say (grpc-*, content-type, x-forwarded-*, x-rpcgate-*, x-request-id and the like).
type Headers struct {
	// Rules for what callers send to the backend.
	Request HeaderRules `yaml:"request"`
	// Rules for what the backend sends back: its headers and trailers.
	Response HeaderRules `yaml:"response"`
}

// HeaderRules are applied in the order in which they stand here.
type HeaderRules struct {
	// Let these through under their own name. Request: HTTP headers of JSON callers that would not go to the backend, or
	// only with the prefix grpcgateway-. Response: what would go out to JSON callers with the prefix Grpc-Metadata-. `*`
	// at the end of a name stands for any rest.
	Allow []string `yaml:"allow"`
	// Take these out; of requests also what has the name after the prefix grpcgateway-. `*` as above.
	Deny []string `yaml:"deny"`
	// Let these through under another name: from the old one to the new one.
	Rename map[string]string `yaml:"rename"`
	// Put these in, in place of what was there.
	Set map[string]string `yaml:"set"`
}

// IsZero tells whether there are no rules at all.
func (h Headers) IsZero() bool { return h.Request.IsZero() && h.Response.IsZero() }

// IsZero tells whether there are no rules.
func (r HeaderRules) IsZero() bool {
	return len(r.Allow) == 0 && len(r.Deny) == 0 && len(r.Rename) == 0 && len(r.Set) == 0
}

// ReservedHeader tells whether a header or metadata key, in lower case, is one
// that neither callers nor backends nor rules decide on: credentials,
// hop-by-hop headers (RFC 9110, section 7.6.1), and what the gateway, gRPC,
// Connect and HTTP themselves put there.
func ReservedHeader(name string) bool {
	if name == "" || name[0] == ':' {
		return true
	}
	switch name {
	case "app", "token", "authorization", "x-app", "x-token", "proxy-authorization", "proxy-authenticate",
		"grpcgateway-authorization":
		return true
	case "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings":
		return true
	case "content-type", "content-length", "content-encoding", "host", "user-agent":
		return true
	case "x-request-id", "forwarded", "x-real-ip":
		return true
	case "connect-protocol-version", "connect-timeout-ms", "connect-accept-encoding", "connect-content-encoding":
		return true
	}
	switch name[0] {
	case 'a':
		return strings.HasPrefix(name, "access-control-")
	case 'g':
		return strings.HasPrefix(name, "grpc-")
	case 's':
		return strings.HasPrefix(name, "sec-websocket-")
	case 'x':
		return strings.HasPrefix(name, "x-forwarded-") || strings.HasPrefix(name, "x-rpcgate-")
	}
	return false
}
