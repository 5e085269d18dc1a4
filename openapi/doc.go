// Package openapi describes a route table as an OpenAPI 3.1 document: its paths,
// parameters, bodies, streams and errors, with the comments of the .proto
// sources where the descriptors have them.
//
// It knows nothing of HTTP: [New] makes a [Document] of a table, and whoever
// serves or writes it has its bytes. The same table and options give the same
// bytes.
//
// # What a document holds
//
// The routes that have an HTTP method and path and, by option, the unary methods
// that have none but are there for Connect's callers. Schemas are components under
// their full proto names; where two backends describe one name differently, or
// write it as JSON with other options, the later one's has the backend's name
// behind it. What OpenAPI cannot express is left out and listed under
// x-rpcgate-omitted: routes of HTTP methods that it does not know, and all but
// the first of several templates that look the same to it, such as /v1/{a} and
// /v1/{b=**}.
//
// # Bounds
//
// A document takes at most some 32 MiB as JSON. Operations that come when that
// is used up are left out, and so are schemas, which then allow anything. One
// operation lists at most 256 query parameters, from at most 5 levels of nested
// messages; a message inside itself is not entered again.
package openapi

const (
	maxBytes      = 32 << 20
	maxParameters = 256
	maxNesting    = 5
	maxOmitted    = 1000
)
