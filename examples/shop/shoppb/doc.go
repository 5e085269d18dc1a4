// Package shoppb is the code generated from ../proto/shop: the messages,
// clients and server interfaces of shop.UserService and shop.OrderService.
package shoppb

//go:generate go run -C ../../../tools/protogen . -proto ../../examples/shop/proto -out ../../examples/shop/shoppb shop/user.proto shop/order.proto
