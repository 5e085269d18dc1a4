// Package shoppb is the other half of the shop's shoppb: the grpc-gateway code
// generated from its UserService, the reference that the bench measures the
// gateway against. The generator names it after the messages' package.
package shoppb

//go:generate go run ../gatewaygen shop
