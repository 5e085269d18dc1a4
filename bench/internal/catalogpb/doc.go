// Package catalogpb is the generated code of the bench's own service, which has
// larger messages and a stream. Package gw below it has its grpc-gateway code.
package catalogpb

//go:generate go run -C ../../../tools/protogen . -proto ../../bench/proto -out ../../bench/internal/catalogpb catalog/catalog.proto
