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
// # Bytes to bytes
//
// JSON becomes wire bytes (read*.go) and wire bytes become JSON (write*.go) in
// one pass over the input, without a message in between: what a body costs is
// bounded by its size. Types inside Any and extensions are found by the
// [Resolver] when they come (lookup.go).
//
// # What differs
//
// A body is taken, and means, what protojson says of it, but:
//   - What is no JSON is refused: protojson takes an exponent without digits, {"a":1e}.
//   - A map's key given twice is refused; protojson takes it when the first one's value was the name of no enum value, and ignored.
//   - Messages nest 100 deep, as protobuf's C++, Java and Python implementations have it, and not 10,000.
//   - No type or extension has a name longer than 1 KiB.
//   - Any inside Any counts as nesting, and what is to be looked through for types that stand after what they are the types of is bounded.
//
// The reference for names, query parameters, path variables and update masks
// is grpc-gateway's runtime (PopulateQueryParameters, PopulateFieldFromPath,
// FieldMaskFromRequestBody); for bodies and answers it is protojson. Tests
// compare with both.
package transcode
