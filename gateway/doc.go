// Package gateway owns the edge: the listeners, the protocol front ends, the
// one pipeline that every call runs through, the admin endpoints, and the
// gateway's life from start over drain to stop.
//
// A front end (front_*.go) turns its protocol's request into a [Call] and the
// outcome back into its protocol's answer, by way of a peer (peer_*.go) that
// reads and writes the messages; everything between is the same for all
// protocols. What a new route table changes is one immutable snapshot behind one
// pointer: a call loads it once and keeps it to its end.
//
// The package knows nothing of Redis or path templates, and of JSON only where a
// value ends: credentials are verified by whoever implements [Verifier], paths
// are matched by the routes package, and bodies are compiled by the route's
// transcoder. The framing of the RPC protocols, and compression, are the wire
// package's.
package gateway
