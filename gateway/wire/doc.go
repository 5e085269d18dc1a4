// Package wire is the framing and the protocol texts of gRPC, gRPC-Web and
// Connect as bytes: envelopes, base64 streams, compression, timeouts, errors in
// JSON, trailers in a body. It serves nothing: it knows no handler, no route
// and no call, and works on io.Reader, io.Writer and byte slices alone.
//
// What it reads comes from anybody: no length is believed before the bytes are
// there, and everything that is read, decompressed included, has a limit.
//
// Sources: gRPC over HTTP2 (grpc/doc/PROTOCOL-HTTP2.md), gRPC-Web
// (grpc/doc/PROTOCOL-WEB.md), the Connect protocol
// (connectrpc.com/docs/protocol).
package wire
