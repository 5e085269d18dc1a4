// Package transcode turns JSON into protobuf wire bytes and back, driven by
// descriptors, and binds path variables and query parameters to fields. It
// knows nothing of routes, credentials or the network.
//
// A [Method] is compiled once per binding; then it is bytes in, bytes out:
// [Method.AppendRequest] appends one request message, [Method.AppendResponse]
// one JSON value. Both are safe for concurrent use.
//
// # How a request is put together
//
// The body's message, then the query parameters, then the path variables are
// appended as wire bytes; in protobuf, concatenation is merge. What is said
// last wins, so a path variable wins over the body. Where merging is not
// winning (a repeated field, a FieldMask or Struct, members of a oneof), the
// body's value is taken out first, or the call is refused; see [Method.AppendRequest].
//
// # Two engines
//
// Messages of ordinary fields are compiled directly (read_*.go, write_*.go),
// without building a message. What is legal but unusual (Any, Struct, groups,
// extensions, a singular field twice on the wire) and what is malformed goes
// through dynamicpb and protojson (slow.go), which thereby define what is
// accepted, and make the errors. The two are compared by fuzzing.
//
// The reference for names, query parameters and path variables is
// grpc-gateway's runtime (PopulateQueryParameters, PopulateFieldFromPath);
// for bodies and answers it is protojson. Tests compare with both.
package transcode
