package rpcproxy

import "google.golang.org/grpc"

// Lease is the use of a pooled connection. It must be released, once.
type Lease struct {
	conn *grpc.ClientConn
}

// Conn is the connection; it must not be used after Release, nor closed.
func (l Lease) Conn() *grpc.ClientConn { return l.conn }

// Release gives the connection back.
func (l Lease) Release() {}
