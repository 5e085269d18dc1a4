// Package catalogpb is the grpc-gateway code generated from the CatalogService.
// The generator names it after the messages' package.
package catalogpb

//go:generate go run ../../gatewaygen catalog
